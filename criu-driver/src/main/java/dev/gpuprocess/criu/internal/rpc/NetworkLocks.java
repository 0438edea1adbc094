package dev.gpuprocess.criu.internal.rpc;

import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.NetworkLock;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.stream.Stream;

/** Chooses a method of locking the network that works on this machine. */
final class NetworkLocks {

  /** The program that CRIU runs for the method {@code iptables}. */
  private static final String PROGRAM = "iptables-restore";

  private NetworkLocks() {}

  /**
   * Chooses a method for a dump.
   *
   * @return {@link NetworkLock#AUTOMATIC} if nothing will be locked
   */
  static NetworkLock choose(DumpOptions options, ProcessIdentity root) {
    NetworkLock wanted = options.criu().networkLock();
    boolean needed = options.criu().tcpEstablished() || hasItsOwnNetwork(root.pid());
    return wanted == NetworkLock.AUTOMATIC && needed ? installed(System.getenv()) : wanted;
  }

  private static boolean hasItsOwnNetwork(int pid) {
    try {
      return !Files.readSymbolicLink(ProcFs.file(pid, "ns", "net"))
          .equals(Files.readSymbolicLink(ProcFs.self("ns", "net")));
    } catch (IOException goneOrForbidden) {
      return false; // CRIU will report it
    }
  }

  /**
   * The method that works on this machine.
   *
   * @param environment CRIU's environment
   */
  static NetworkLock installed(Map<String, String> environment) {
    boolean installed =
        Stream.of(environment.getOrDefault("PATH", "").split(":"))
            .filter(directory -> !directory.isEmpty())
            .anyMatch(directory -> Files.isExecutable(Path.of(directory, PROGRAM)));
    return installed ? NetworkLock.IPTABLES : NetworkLock.NFTABLES;
  }
}
