package dev.gpuprocess.criu;

import dev.gpuprocess.contract.Workload;
import dev.gpuprocess.fixtures.ProgramRun;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Assumptions;

/**
 * Two hosts with a cable between them, as far as the network is concerned: two network namespaces
 * with a pair of virtual devices. Needs root and iproute2. Closing removes both.
 */
final class TwoHosts implements AutoCloseable {

  /** The addresses at both ends of the cable. */
  static final String SENDER_ADDRESS = "10.77.0.1";

  static final String RECEIVER_ADDRESS = "10.77.0.2";

  private final Workload sender = namespace();
  private final Workload receiver = namespace();

  private TwoHosts() {}

  /** Makes both, or skips the test with the reason. */
  static TwoHosts create() {
    Assumptions.assumeTrue(Files.exists(Path.of("/proc/self/ns/net")), "no network namespaces");
    TwoHosts hosts = new TwoHosts();
    try {
      String other = Integer.toString(hosts.receiver.pid());
      in(hosts.sender, "ip", "link", "add", "gp0", "type", "veth", "peer", "gp0", "netns", other);
      up(hosts.sender, SENDER_ADDRESS);
      up(hosts.receiver, RECEIVER_ADDRESS);
      return hosts;
    } catch (AssertionError | UncheckedIOException e) {
      hosts.close();
      return Assumptions.abort("no two network namespaces here: " + e.getMessage());
    }
  }

  private static Workload namespace() {
    Workload process = Workload.of("unshare", "--net", "sleep", "600");
    String ours = netOf("self");
    Workload.await(
        () -> !netOf(Integer.toString(process.pid())).equals(ours), "a network namespace");
    return process;
  }

  private static String netOf(String pid) {
    try {
      return Files.readSymbolicLink(Path.of("/proc", pid, "ns", "net")).toString();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static void up(Workload host, String address) {
    in(host, "ip", "address", "add", address + "/24", "dev", "gp0");
    in(host, "ip", "link", "set", "gp0", "up");
    in(host, "ip", "link", "set", "lo", "up");
  }

  private static String in(Workload host, String... command) {
    return ProgramRun.of(enter(host, command)).succeed();
  }

  private static String[] enter(Workload host, String... command) {
    String[] all = new String[command.length + 2];
    all[0] = "nsenter";
    all[1] = "--net=/proc/%d/ns/net".formatted(host.pid());
    System.arraycopy(command, 0, all, 2, command.length);
    return all;
  }

  /** Returns the command that runs a program on the sending host. */
  List<String> senderCommand() {
    return List.of(enter(sender));
  }

  /** Returns the command that runs a program on the receiving host. */
  List<String> receiverCommand() {
    return List.of(enter(receiver));
  }

  @Override
  public void close() {
    sender.close();
    receiver.close();
  }
}
