package dev.gpuprocess.criu.internal.preflight;

import dev.gpuprocess.error.UnsupportedResource.Kind;
import dev.gpuprocess.internal.linux.Processes;
import dev.gpuprocess.internal.proc.FileNode;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.options.CriuSwitch;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.External;
import dev.gpuprocess.report.ProcessIdentity;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.regex.Pattern;

/**
 * Terminals. CRIU dumps a pseudoterminal whose master is outside the tree only if the root is not
 * the leader of its session, and only one such terminal.
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
  private final ProcessIdentity root;
  private final Set<Integer> masters = new TreeSet<>();
  private final Map<Integer, Slave> slaves = new TreeMap<>();

  private record Slave(ResourceRef place, FileNode node) {}

  TerminalCheck(FindingCollector findings, DumpOptions options, ProcessIdentity root) {
    this.findings = findings;
    this.options = options;
    this.root = root;
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
    boolean leader = Processes.stat(root).map(ProcStat::leadsSession).orElse(false);
    int allowed = leader ? 0 : 1;
    if (slaves.size() > allowed) {
      slaves.forEach((index, slave) -> refuse(index, slave, leader));
    }
  }

  private void refuse(int index, Slave slave, boolean leader) {
    findings.needs(
        Kind.TERMINAL,
        slave.place(),
        "/dev/pts/" + index,
        leader
            ? "is a terminal whose other end is outside the tree, and the root is the leader of its session"
            : "is one of several terminals whose other ends are outside the tree",
        "external=" + External.terminal(slave.node().number(), slave.node().device()).text());
  }
}
