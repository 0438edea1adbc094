package dev.gpuprocess.criu.internal.log;

import java.util.List;
import java.util.Map;
import java.util.Optional;

/** Maps CRIU's errors to remedies that name the options of this library. */
public final class Hints {

  private static final String STOPPED =
      "another process sent SIGSTOP or SIGCONT while CRIU dumped the process, which CRIU does not support"
          + " and the process may not survive: send no such signals during a dump";

  private static final List<Map.Entry<String, String>> DUMP =
      List.of(
          Map.entry("Connected TCP socket", "set CriuOptions.tcpEstablished(true)"),
          Map.entry("Some file locks are hold", "set CriuOptions.fileLocks(true)"),
          Map.entry("Can't dump ghost file", "raise CriuOptions.ghostLimit(bytes)"),
          Map.entry("Use link-remap option", "set CriuOptions.linkRemap(true)"),
          Map.entry("External socket", "set CriuOptions.externalUnixSockets(true)"),
          Map.entry(
              "BUG! Unknown socket",
              "it has a socket of a family that CRIU does not support, such as AF_ALG or AF_VSOCK: let the"
                  + " process close it first"),
          Map.entry(
              "OOM storing pipe",
              "CRIU dumps at most 1024 pipes per tree: let the processes close some first"),
          Map.entry("ptables", "install iptables, or set CriuOptions.networkLock(NFTABLES)"),
          Map.entry(
              "bfd buffer is too small",
              "CRIU cannot read a line of /proc that is longer than a page, as of a process in more than"
                  + " some 680 groups: start the process in fewer groups"),
          Map.entry(
              "Can't get rlimit",
              "give CRIU CAP_SYS_RESOURCE, which it needs for other users' processes"),
          Map.entry("task interruption, aborting", STOPPED),
          Map.entry("was stopped by", STOPPED));

  private static final List<Map.Entry<String, String>> RESTORE =
      List.of(
          Map.entry(
              "service_fd_base",
              "CRIU may open too few files: raise the hard limit of the JVM to 1024 or more (ulimit -n,"
                  + " LimitNOFILE of systemd), as it counts for CRIU too"),
          Map.entry(
              "has bad size",
              "the file has changed since the dump: put the old version back, or restore a newer image"),
          Map.entry(
              "mount.c:",
              "CRIU cannot recreate these mounts: set CriuOptions.mountCompatibility(true)"),
          Map.entry(
              "Can't bind inet socket",
              "a port on which it listened is held by connections that it has closed (TIME_WAIT, up to a"
                  + " minute after they were) or by another process (see ss -antp): restore it again"
                  + " after a minute, or when that process has ended"),
          Map.entry("Connected TCP socket", "set CriuOptions.tcpEstablished(true)"),
          Map.entry("file locks", "set CriuOptions.fileLocks(true)"),
          Map.entry("External socket", "set CriuOptions.externalUnixSockets(true)"),
          Map.entry("shell-job", "set CriuOptions.shellJob(true)"),
          Map.entry("shell job", "set CriuOptions.shellJob(true)"));

  private Hints() {}

  public static Optional<String> of(String operation, String error) {
    List<Map.Entry<String, String>> hints =
        switch (operation) {
          case "dump" -> DUMP;
          case "restore" -> RESTORE;
          default -> List.of();
        };
    return hints.stream()
        .filter(hint -> error.contains(hint.getKey()))
        .map(Map.Entry::getValue)
        .findFirst();
  }
}
