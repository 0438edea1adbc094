package dev.gpuprocess.criu.internal.log;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;

/** Maps CRIU's errors to remedies that name the options of this library. */
public final class Hints {

  private static final String STOPPED =
      "another process sent SIGSTOP or SIGCONT while CRIU dumped the process, which CRIU does not support"
          + " and the process may not survive: send no such signals during a dump";

  private static final Map<String, String> DUMP = new LinkedHashMap<>();
  private static final Map<String, String> RESTORE = new LinkedHashMap<>();

  static {
    DUMP.put("Connected TCP socket", "set CriuOptions.tcpEstablished(true)");
    DUMP.put("Some file locks are hold", "set CriuOptions.fileLocks(true)");
    DUMP.put("Can't dump ghost file", "raise CriuOptions.ghostLimit(bytes)");
    DUMP.put("Use link-remap option", "set CriuOptions.linkRemap(true)");
    DUMP.put("External socket", "set CriuOptions.externalUnixSockets(true)");
    DUMP.put(
        "BUG! Unknown socket",
        "it has a socket of a family that CRIU does not support, such as AF_ALG or AF_VSOCK: let the"
            + " process close it first");
    DUMP.put(
        "OOM storing pipe",
        "CRIU dumps at most 1024 pipes per tree: let the processes close some first");
    DUMP.put("ptables", "install iptables, or set CriuOptions.networkLock(NFTABLES)");
    DUMP.put(
        "Can't get rlimit",
        "give CRIU CAP_SYS_RESOURCE, which it needs for other users' processes");
    DUMP.put("task interruption, aborting", STOPPED);
    DUMP.put("was stopped by", STOPPED);
    RESTORE.put(
        "has bad size",
        "the file has changed since the dump: put the old version back, or restore a newer image");
    RESTORE.put(
        "mount.c:", "CRIU cannot recreate these mounts: set CriuOptions.mountCompatibility(true)");
    RESTORE.put(
        "Can't bind inet socket",
        "a port on which it listened is held by connections that it has closed (TIME_WAIT, up to a"
            + " minute after they were) or by another process (see ss -antp): restore it again"
            + " after a minute, or when that process has ended");
    RESTORE.put("Connected TCP socket", "set CriuOptions.tcpEstablished(true)");
    RESTORE.put("file locks", "set CriuOptions.fileLocks(true)");
    RESTORE.put("External socket", "set CriuOptions.externalUnixSockets(true)");
    RESTORE.put("shell-job", "set CriuOptions.shellJob(true)");
    RESTORE.put("shell job", "set CriuOptions.shellJob(true)");
  }

  private Hints() {}

  public static Optional<String> of(String operation, String error) {
    Map<String, String> hints =
        switch (operation) {
          case "dump" -> DUMP;
          case "restore" -> RESTORE;
          default -> Map.of();
        };
    return hints.entrySet().stream()
        .filter(hint -> error.contains(hint.getKey()))
        .map(Map.Entry::getValue)
        .findFirst();
  }
}
