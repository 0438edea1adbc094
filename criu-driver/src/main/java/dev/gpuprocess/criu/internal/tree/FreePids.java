package dev.gpuprocess.criu.internal.tree;

import dev.gpuprocess.internal.linux.Processes;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.internal.time.Deadline;
import dev.gpuprocess.internal.time.Uninterrupted;
import dev.gpuprocess.process.ProcessIdentity;
import java.time.Duration;
import java.util.List;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Waits until the pids of a killed tree are free, so that it can be restored at once. */
public final class FreePids {

  private static final Logger LOG = LoggerFactory.getLogger(FreePids.class);

  /** Freeing a process's memory takes about a tenth of a second per GiB. */
  private static final Duration TEARDOWN_LIMIT = Duration.ofSeconds(5);

  private static final Duration REAP_LIMIT = OwnZombies.PATIENCE;

  /** Init reaps zombies, but in some containers only every few seconds. */
  private static final Duration INIT_REAP_LIMIT = Duration.ofSeconds(10);

  private static final long PAUSE_NANOS = 500_000;

  private FreePids() {}

  /**
   * Waits for a limited time; the image is good whether or not the pids become free. Waits for a
   * zombie only briefly, as its parent must reap it, and reaps one that only this JVM can reap.
   *
   * @param tree all its processes, which have been killed
   */
  public static void await(List<ProcessIdentity> tree) {
    Deadline teardown = Deadline.after(TEARDOWN_LIMIT);
    Deadline reap = Deadline.after(REAP_LIMIT);
    Deadline initReaps = Deadline.after(INIT_REAP_LIMIT);
    while (true) {
      List<ProcStat> left =
          tree.stream().flatMap(process -> Processes.stat(process).stream()).toList();
      boolean onlyZombies = left.stream().allMatch(ProcStat::isDead);
      boolean onlyInits =
          onlyZombies
              && left.stream().allMatch(stat -> stat.parent() == 1 && !OwnZombies.isOurs(stat));
      if (reap.passed() && onlyZombies) {
        tree.forEach(OwnZombies::reap);
        left = left.stream().filter(stat -> !OwnZombies.isOurs(stat)).toList();
      }
      if (left.isEmpty()) {
        return;
      }
      if ((onlyInits ? initReaps : onlyZombies ? reap : teardown).passed()) {
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
}
