package dev.gpuprocess.internal.os;

import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.internal.process.Processes;
import dev.gpuprocess.internal.time.Polling;
import dev.gpuprocess.process.ProcessIdentity;
import java.time.Duration;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** A process and all processes below it. */
public final class ProcessTree {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  /** A thread that waits for its vfork child does not stop, nor does one in a hung disk. */
  private static final Duration PATIENCE = Duration.ofSeconds(1);

  private ProcessTree() {}

  /**
   * Sends SIGKILL to a process and to all below it. All are stopped first, parents before children:
   * one that runs could start another after it was looked at, and that one would live on below
   * init.
   *
   * @return those that were found
   */
  public static Set<ProcessIdentity> kill(ProcessIdentity root) {
    Set<ProcessIdentity> tree = new LinkedHashSet<>(List.of(root));
    stop(root);
    while (tree.addAll(stopped(root, tree))) {}
    tree.forEach(Processes::kill);
    return tree;
  }

  /** Finds those of the tree that are not known yet. */
  private static List<ProcessIdentity> stopped(ProcessIdentity root, Set<ProcessIdentity> known) {
    List<ProcessIdentity> found =
        root.isAlive()
            ? ProcFs.descendants(root.pid()).stream()
                .flatMap(pid -> ProcessIdentity.of(pid).stream())
                .filter(each -> !known.contains(each))
                .toList()
            : List.of();
    found.forEach(ProcessTree::stop);
    return found;
  }

  /** Returns when it stands still: a fork that had begun ends before. */
  private static void stop(ProcessIdentity process) {
    try (PidDescriptor held = PidDescriptor.open(process.pid());
        Polling patience = new Polling(PATIENCE)) {
      // The descriptor stays with the process it was opened on.
      if (!process.isAlive() || !held.signal(PidDescriptor.SIGSTOP)) {
        return;
      }
      while (!ProcFs.tasks(process.pid()).stream().allMatch(ProcessTree::isAtRest)) {
        if (!patience.pause()) {
          LOG.debug("process {} does not stop", process.pid());
          return;
        }
      }
    } catch (NativeCallException e) {
      LOG.debug("process {} was not stopped before it is killed", process.pid(), e);
    }
  }

  private static boolean isAtRest(ProcStat thread) {
    return thread.isStopped() || thread.isDead();
  }
}
