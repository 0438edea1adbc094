package dev.gpuprocess.criu.internal.process;

import dev.gpuprocess.criu.internal.os.NativeCallException;
import dev.gpuprocess.criu.internal.os.Posix;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.internal.process.Processes;
import dev.gpuprocess.process.ProcessIdentity;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Optional;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Ends processes that CRIU has started, or CRIU itself. What the kernel does not let us signal,
 * because it is root's, is ended by root, on an errand of another CRIU.
 */
public final class CriuKill {

  private static final Logger LOG = LoggerFactory.getLogger(CriuKill.class);

  private final CriuProcess process;
  private final boolean withTree;

  private CriuKill(CriuProcess process, boolean withTree) {
    this.process = process;
    this.withTree = withTree;
  }

  /** Ends CRIU, with what is between it and us. */
  static CriuKill alone(CriuProcess process) {
    return new CriuKill(process, false);
  }

  /** Ends what CRIU has begun as well: all that is below it. */
  static CriuKill withTree(CriuProcess process) {
    return new CriuKill(process, true);
  }

  /** Does it. Whether it was of use shows in {@link CriuProcess#hasEnded}. */
  void run() throws NativeCallException {
    Optional<ProcessIdentity> child = process.identity();
    if (process.command().direct() && child.isPresent() && mayKill(child.get())) {
      return;
    }
    List<ProcessIdentity> roots = notOurs(line());
    if (roots.isEmpty()) {
      child.ifPresent(CriuKill::mayKill);
      return;
    }
    if (!process.isErrand()) {
      errand(process.command(), roots, withTree);
    }
    if (child.isPresent()) {
      // Sudo hands it on; a CRIU that restores does not hear it, and one that dumps does.
      Posix.terminate(child.get());
    }
  }

  /**
   * CRIU and its ancestors below our child; what CRIU has restored is not among them. All below our
   * child when CRIU has not told who it is.
   */
  private List<ProcessIdentity> line() {
    if (process.command().direct()) {
      return process.identity().stream().toList();
    }
    List<Integer> descendants = ProcFs.descendants(process.child());
    if (process.criu().isEmpty()) {
      return descendants.stream().flatMap(pid -> ProcessIdentity.of(pid).stream()).toList();
    }
    List<ProcessIdentity> line = new ArrayList<>();
    Optional<ProcessIdentity> next = process.criu();
    while (next.isPresent() && next.get().pid() != process.child()) {
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
   * Ends processes.
   *
   * @param command how to have root end those that are root's
   * @return false when some of them could not be signalled
   */
  public static boolean end(CriuCommand command, Collection<ProcessIdentity> processes) {
    List<ProcessIdentity> roots = notOurs(processes);
    return roots.isEmpty() || errand(command, roots, false);
  }

  /** Kills those that we may, and returns the others. */
  private static List<ProcessIdentity> notOurs(Collection<ProcessIdentity> processes) {
    return processes.stream().filter(each -> each.isAlive() && !mayKill(each)).toList();
  }

  private static boolean mayKill(ProcessIdentity each) {
    try {
      Posix.kill(each);
      return true;
    } catch (NativeCallException e) {
      LOG.debug("process {} cannot be ended", each.pid(), e);
      return false;
    }
  }

  private static boolean errand(
      CriuCommand command, List<ProcessIdentity> roots, boolean withTree) {
    try {
      RootErrand.kill(command, roots, withTree);
      return true;
    } catch (IOException e) {
      LOG.debug("{} are root's and cannot be ended", roots, e);
      return false;
    }
  }
}
