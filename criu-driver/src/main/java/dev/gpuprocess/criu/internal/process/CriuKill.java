package dev.gpuprocess.criu.internal.process;

import dev.gpuprocess.criu.internal.linux.ChildProcess;
import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.linux.Processes;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.internal.proc.Signals;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Optional;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Kills processes that CRIU has started, or CRIU itself. Processes of root that this JVM may not
 * signal are killed by another CRIU: see {@link RootErrand}.
 */
public final class CriuKill {

  private static final Logger LOG = LoggerFactory.getLogger(CriuKill.class);

  private final CriuProcess process;
  private final boolean withTree;

  private CriuKill(CriuProcess process, boolean withTree) {
    this.process = process;
    this.withTree = withTree;
  }

  /** Kills CRIU and the processes between this JVM and CRIU. */
  static CriuKill alone(CriuProcess process) {
    return new CriuKill(process, false);
  }

  /** Kills all descendants of CRIU as well. */
  static CriuKill withTree(CriuProcess process) {
    return new CriuKill(process, true);
  }

  /** Kills the processes; {@link CriuProcess#hasEnded} returns whether that succeeded. */
  void run() throws NativeCallException {
    ChildProcess child = process.child();
    if (process.command().direct() && killed(child)) {
      return;
    }
    List<ProcessIdentity> rootOwned = killOurs(line());
    if (rootOwned.isEmpty()) {
      killed(child);
      return;
    }
    if (!process.isErrand()) {
      errand(process.command(), rootOwned, withTree);
    }
    terminate(child);
  }

  /**
   * Ends the command that runs CRIU. Sudo forwards SIGTERM; a restoring CRIU blocks it, a dumping
   * one does not. A sudo that belongs to root cannot be signalled by another user.
   */
  private static void terminate(ChildProcess child) {
    try {
      boolean unused = child.terminate();
    } catch (NativeCallException e) {
      LOG.debug("process {} cannot be ended", child.pid(), e);
    }
  }

  /** Returns false if it belongs to another user. */
  private static boolean killed(ChildProcess child) {
    try {
      child.kill();
      return true;
    } catch (NativeCallException e) {
      LOG.debug("process {} cannot be killed", child.pid(), e);
      return false;
    }
  }

  /**
   * Returns CRIU and its ancestors up to the child of this JVM, but no restored processes; all
   * descendants of the child if CRIU's pid is not known.
   */
  private List<ProcessIdentity> line() {
    if (process.command().direct()) {
      return process.criu().stream().toList();
    }
    List<Integer> descendants = ProcFs.descendants(process.pid());
    if (process.criu().isEmpty()) {
      return descendants.stream().flatMap(pid -> ProcessIdentity.of(pid).stream()).toList();
    }
    List<ProcessIdentity> line = new ArrayList<>();
    Optional<ProcessIdentity> next = process.criu();
    while (next.isPresent() && next.get().pid() != process.pid()) {
      line.add(next.get());
      next =
          Processes.stat(next.get())
              .map(ProcStat::parent)
              .filter(descendants::contains)
              .flatMap(ProcessIdentity::of);
    }
    return line;
  }

  /**
   * Kills processes.
   *
   * @param command the command that starts CRIU, for processes of root
   * @return false if some could not be signalled
   */
  public static boolean end(CriuCommand command, Collection<ProcessIdentity> processes) {
    List<ProcessIdentity> rootOwned = killOurs(processes);
    return rootOwned.isEmpty() || errand(command, rootOwned, false);
  }

  /** Kills the processes that this JVM may kill, and returns the others. */
  private static List<ProcessIdentity> killOurs(Collection<ProcessIdentity> processes) {
    return processes.stream().filter(each -> each.isAlive() && !mayKill(each)).toList();
  }

  private static boolean mayKill(ProcessIdentity each) {
    try {
      Processes.signal(each, Signals.SIGKILL);
      return true;
    } catch (NativeCallException e) {
      LOG.debug("process {} cannot be killed", each.pid(), e);
      return false;
    }
  }

  private static boolean errand(
      CriuCommand command, List<ProcessIdentity> rootOwned, boolean withTree) {
    try {
      RootErrand.kill(command, rootOwned, withTree);
      return true;
    } catch (IOException e) {
      LOG.debug("{} belong to root and cannot be killed", rootOwned, e);
      return false;
    }
  }
}
