package dev.gpuprocess.internal.linux;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.FixAndRetryException;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.internal.proc.ProcessUnreadableException;
import dev.gpuprocess.internal.proc.Signals;
import dev.gpuprocess.internal.time.Polling;
import dev.gpuprocess.report.ProcessIdentity;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Kills processes and all their descendants. */
public final class ProcessTree {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  /**
   * The time that processes have to stop, which begins again when more are found. A thread that
   * waits for its vfork child, a hung disk or memory does not stop.
   */
  private static final Duration PATIENCE = Duration.ofSeconds(1);

  private ProcessTree() {}

  /**
   * Kills processes and their descendants, and waits until they are gone.
   *
   * @return false when some are not gone at the limit
   * @throws ProcessUnreadableException as {@link #kill} does
   */
  public static boolean end(Collection<ProcessIdentity> roots, Duration limit) {
    Set<ProcessIdentity> tree = kill(roots);
    return Polling.until(limit, () -> tree.stream().noneMatch(ProcessIdentity::isAlive));
  }

  /**
   * Sends SIGKILL to processes and their descendants. All are stopped first, parents before
   * children: a running process could start a child after its children were listed, and that child
   * would survive below init. They are killed in the reverse order, because the kernel continues
   * stopped children whose parent exits.
   *
   * @return the processes that were found
   * @throws FixAndRetryException when this JVM is in the tree; nothing was touched
   * @throws ProcessUnreadableException when {@code /proc} cannot be read; the processes found
   *     before were killed as far as possible
   */
  public static Set<ProcessIdentity> kill(Collection<ProcessIdentity> roots) {
    Set<ProcessIdentity> tree = new LinkedHashSet<>(roots);
    requireOthers(tree);
    ProcessUnreadableException unread = null;
    try {
      stopAll(tree);
    } catch (ProcessUnreadableException e) {
      unread = e;
    }
    List<ProcessIdentity> childrenFirst = new ArrayList<>(tree);
    Collections.reverse(childrenFirst);
    for (ProcessIdentity process : childrenFirst) {
      unread = kill(process, unread);
    }
    if (unread != null) {
      throw unread;
    }
    return tree;
  }

  /** To stop this JVM would be the end of the kill, with the tree half stopped. */
  private static void requireOthers(Set<ProcessIdentity> roots) {
    for (ProcStat each : ProcFs.ownAncestry()) {
      if (roots.contains(new ProcessIdentity(each.pid(), each.startTicks()))) {
        throw new FixAndRetryException(
            FixAndRetryException.Reason.LAUNCH_FAILED,
            "process %s is not ended, because this JVM (process %s) is in its tree: end it from outside"
                .formatted(each.pid(), ProcessHandle.current().pid()),
            Failure.of("end", each.pid()));
      }
    }
  }

  private static @Nullable ProcessUnreadableException kill(
      ProcessIdentity process, @Nullable ProcessUnreadableException earlier) {
    try {
      Processes.kill(process);
      return earlier;
    } catch (ProcessUnreadableException e) {
      return earlier == null ? e : earlier;
    }
  }

  /** Stops processes, and adds the descendants that are found. */
  private static void stopAll(Set<ProcessIdentity> tree) {
    List<ProcessIdentity> found = List.copyOf(tree);
    boolean inTime = true;
    while (inTime && !found.isEmpty()) {
      found.forEach(ProcessTree::stop);
      inTime = standStill(found);
      found = below(tree);
      tree.addAll(found);
    }
  }

  /** Finds the descendants that are not in the tree yet. */
  private static List<ProcessIdentity> below(Set<ProcessIdentity> tree) {
    Set<Integer> below = new LinkedHashSet<>();
    for (ProcessIdentity parent : tree) {
      if (!below.contains(parent.pid()) && parent.isAlive()) {
        below.addAll(ProcFs.descendants(parent.pid()));
      }
    }
    return below.stream()
        .flatMap(pid -> ProcessIdentity.of(pid).stream())
        .filter(each -> !tree.contains(each))
        .toList();
  }

  private static void stop(ProcessIdentity process) {
    try {
      boolean unused = Processes.signal(process, Signals.SIGSTOP);
    } catch (NativeCallException e) {
      LOG.debug("process {} was not stopped before it is killed", process.pid(), e);
    }
  }

  /** Returns true when all have stopped: a fork that had begun has ended then. */
  private static boolean standStill(List<ProcessIdentity> processes) {
    boolean inTime =
        Polling.until(PATIENCE, () -> processes.stream().allMatch(ProcessTree::isAtRest));
    if (!inTime) {
      LOG.debug("not all of {} stop", processes);
    }
    return inTime;
  }

  private static boolean isAtRest(ProcessIdentity process) {
    return ProcFs.eachTask(process.pid()).allMatch(thread -> thread.isStopped() || thread.isDead());
  }
}
