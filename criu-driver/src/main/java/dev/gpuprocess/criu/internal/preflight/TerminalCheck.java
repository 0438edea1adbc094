package dev.gpuprocess.criu.internal.preflight;

import dev.gpuprocess.error.UnsupportedResource.Kind;
import dev.gpuprocess.internal.proc.FileNode;
import dev.gpuprocess.options.CriuSwitch;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.External;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.regex.Pattern;

/**
 * Terminals. CRIU dumps one pseudo-terminal whose master is outside the tree. A restore needs CRIU
 * as a child of this JVM for it, because CRIU's standard input is the terminal then.
 */
final class TerminalCheck {

  private static final int VIRTUAL_MAJOR = 4;
  private static final int HIGHEST_VIRTUAL = 63;
  private static final int AUXILIARY_MAJOR = 5;
  private static final int MASTER_MINOR = 2;
  private static final int FIRST_MASTER_MAJOR = 128;
  private static final int LAST_MASTER_MAJOR = 135;
  private static final int SLAVE_MAJOR = 136;
  private static final int USB_SERIAL_MAJOR = 188;
  private static final int SERIAL_MAJOR = 204;

  private static final Pattern INDEX = Pattern.compile("(?md)^tty-index:\\s*(\\d+)");

  private final FindingCollector findings;
  private final DumpOptions options;
  private final boolean ourChild;
  private final Set<Integer> masters = new TreeSet<>();
  private final Map<Integer, Slave> slaves = new TreeMap<>();

  private record Slave(ResourceRef place, FileNode node) {}

  /**
   * Creates the check.
   *
   * @param ourChild whether CRIU is a child of this JVM
   */
  TerminalCheck(FindingCollector findings, DumpOptions options, boolean ourChild) {
    this.findings = findings;
    this.options = options;
    this.ourChild = ourChild;
  }

  /** Examines a device; returns whether it is a terminal that CRIU knows. */
  boolean look(ResourceRef place, FileNode node) {
    int major = node.major();
    int minor = node.minor();
    if (major == SLAVE_MAJOR) {
      if (!options
          .criu()
          .get(CriuSwitch.EXTERNAL)
          .contains(External.terminal(node.number(), node.device()))) {
        slaves.putIfAbsent(minor, new Slave(place, node));
      }
      return true;
    }
    if ((major == AUXILIARY_MAJOR && minor == MASTER_MINOR)
        || (major >= FIRST_MASTER_MAJOR && major <= LAST_MASTER_MAJOR)) {
      place.fdinfo(INDEX).map(Integer::valueOf).ifPresent(masters::add);
      return true;
    }
    return (major == AUXILIARY_MAJOR && minor < MASTER_MINOR)
        || (major == VIRTUAL_MAJOR && minor <= HIGHEST_VIRTUAL)
        || major == USB_SERIAL_MAJOR
        || major == SERIAL_MAJOR;
  }

  void finish() {
    slaves.keySet().removeAll(masters);
    int allowed = ourChild ? 1 : 0;
    if (slaves.size() > allowed) {
      slaves.forEach(this::refuse);
    }
  }

  private void refuse(int index, Slave slave) {
    findings.needs(
        Kind.TERMINAL,
        slave.place(),
        "/dev/pts/" + index,
        ourChild
            ? "is one of several terminals whose other ends are outside the tree"
            : "is a terminal whose other end is outside the tree, and a restore with a CRIU that is not a child of this JVM cannot give the process another",
        "external=" + External.terminal(slave.node().number(), slave.node().device()).text());
  }
}
