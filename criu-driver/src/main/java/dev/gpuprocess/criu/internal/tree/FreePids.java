package dev.gpuprocess.criu.internal.tree;

import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.linux.PidDescriptor;
import dev.gpuprocess.internal.linux.Processes;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.internal.time.Deadline;
import dev.gpuprocess.internal.time.Uninterrupted;
import dev.gpuprocess.report.ProcessIdentity;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.function.BooleanSupplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Waits until the pids of a killed tree are free, so that it can be restored at once. A JVM that is
 * the first process of a container, or a child subreaper, becomes the parent of the processes that
 * it has restored, and must reap them itself: the JDK reaps only the processes that it has started.
 */
public final class FreePids {

  private static final Logger LOG = LoggerFactory.getLogger(FreePids.class);

  /** Freeing a process's memory takes about a tenth of a second per GiB. */
  private static final Duration TEARDOWN_LIMIT = Duration.ofSeconds(5);

  /** A child of the JDK that is still a zombie then was not started by the JDK. */
  private static final Duration REAP_LIMIT = Duration.ofSeconds(1);

  /** Init reaps zombies, but in some containers only every few seconds. */
  private static final Duration INIT_REAP_LIMIT = Duration.ofSeconds(10);

  private static final long PAUSE_NANOS = 500_000;

  private FreePids() {}

  /**
   * Waits for a limited time; the image is good whether or not the pids become free. Waits for a
   * zombie only briefly, as its parent must reap it, and reaps one that only this JVM can reap.
   *
   * @param tree all processes of a killed tree
   * @param isUp whether the dump may wait no longer: its deadline has passed, or it was cancelled
   */
  public static void await(List<ProcessIdentity> tree, BooleanSupplier isUp) {
    Deadline teardown = Deadline.after(TEARDOWN_LIMIT);
    Deadline reap = Deadline.after(REAP_LIMIT);
    Deadline initReaps = Deadline.after(INIT_REAP_LIMIT);
    while (true) {
      List<ProcStat> left =
          tree.stream().flatMap(process -> Processes.stat(process).stream()).toList();
      boolean onlyZombies = left.stream().allMatch(ProcStat::isDead);
      boolean onlyInits =
          onlyZombies && left.stream().allMatch(stat -> stat.parent() == 1 && !isOurs(stat));
      if (reap.passed() && onlyZombies) {
        tree.forEach(FreePids::reap);
        left = left.stream().filter(stat -> !isOurs(stat)).toList();
      }
      if (left.isEmpty()) {
        return;
      }
      if (isUp.getAsBoolean() || (onlyInits ? initReaps : onlyZombies ? reap : teardown).passed()) {
        LOG.warn(
            "{} {} killed, but not yet {}: a restore has to wait for that",
            left.size() == 1 ? "process" : "processes",
            left.stream().map(ProcStat::pid).toList(),
            onlyZombies ? "reaped by the parent" : "torn down by the kernel");
        return;
      }
      Uninterrupted.pause(PAUSE_NANOS);
    }
  }

  /** Returns whether this JVM is the parent of the process. */
  private static boolean isOurs(ProcStat stat) {
    return stat.parent() == ProcessHandle.current().pid();
  }

  /** Frees a pid that a zombie child of this JVM holds: waits for the JDK, and reaps the zombie. */
  public static void free(int pid) {
    Optional<ProcessIdentity> zombie =
        ProcFs.stat(pid)
            .filter(stat -> stat.isDead() && isOurs(stat))
            .map(stat -> new ProcessIdentity(pid, stat.startTicks()));
    if (zombie.isPresent()) {
      boolean unused =
          Deadline.after(REAP_LIMIT)
              .await(PAUSE_NANOS, () -> Processes.stat(zombie.get()).isEmpty());
      reap(zombie.get());
    }
  }

  /**
   * Reaps exactly this process, if it is a zombie child of this JVM. To be called only after the
   * JDK has had time to reap it.
   */
  public static void reap(ProcessIdentity process) {
    if (Processes.stat(process).filter(stat -> stat.isDead() && isOurs(stat)).isEmpty()) {
      return;
    }
    try {
      LOG.debug("reaped {}: {}", process.pid(), PidDescriptor.reapIfEnded(process.pid()));
    } catch (NativeCallException e) {
      LOG.warn("process {} has ended and cannot be reaped: {}", process.pid(), e.getMessage());
    }
  }
}
