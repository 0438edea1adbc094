package dev.gpuprocess.criu;

import dev.gpuprocess.ProcessIdentity;
import dev.gpuprocess.proc.Freezer;
import dev.gpuprocess.proc.ProcFs;
import dev.gpuprocess.proc.ProcStat;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.locks.LockSupport;

/** What became of a process tree after a dump, found out from the kernel once CRIU is gone. */
enum TreeFate {
  /** Nobody traces it and nothing of it is on its way out. */
  RUNS,
  /** All of it is gone. */
  GONE,
  /** What is left of it is on its way out and takes long to go. */
  DYING,
  /** Some of it is there and traced or frozen, for longer than that can take. */
  UNSETTLED;

  private static final Duration SETTLE_LIMIT = Duration.ofSeconds(5);
  private static final Duration REAP_LIMIT = Duration.ofSeconds(1);
  private static final Duration INIT_REAP_LIMIT = Duration.ofSeconds(10);
  private static final Duration MOMENT = Duration.ofMillis(100);
  private static final long PAUSE_NANOS = 500_000;

  /**
   * Waits until the kernel's answer cannot change any more.
   *
   * @param tree all of it
   * @param finishKill whether a tree that is partly killed may be killed altogether: only when its
   *     images are complete
   */
  static TreeFate of(List<ProcessIdentity> tree, boolean finishKill) throws NativeCallException {
    Deadline deadline = Deadline.after(SETTLE_LIMIT);
    while (true) {
      List<ProcessIdentity> living = tree.stream().filter(ProcessIdentity::isAlive).toList();
      if (living.isEmpty()) {
        return GONE;
      }
      if (finishKill && living.size() < tree.size()) {
        for (ProcessIdentity process : living) {
          Posix.kill(process);
        }
      } else if (living.stream().allMatch(TreeFate::isFree)) {
        return isFrozen(living) ? UNSETTLED : RUNS;
      }
      if (deadline.passed()) {
        return living.stream().allMatch(TreeFate::isEnding) ? DYING : UNSETTLED;
      }
      LockSupport.parkNanos(PAUSE_NANOS);
    }
  }

  /**
   * The same, after a moment. A CRIU that is killed while a task executes its code leaves the task
   * before a breakpoint, of which it dies as soon as it runs.
   */
  static TreeFate onceItHasRun(List<ProcessIdentity> tree, boolean finishKill)
      throws NativeCallException {
    Deadline moment = Deadline.after(MOMENT);
    while (!moment.passed()) {
      LockSupport.parkNanos(PAUSE_NANOS);
    }
    return of(tree, finishKill);
  }

  /** Neither killed nor about to die of what CRIU has left in it. */
  private static boolean isFree(ProcessIdentity process) {
    return ProcFs.tracer(process.pid()).isEmpty()
        && ProcFs.tasks(process.pid()).stream().noneMatch(ProcStat::isHeldByTracer)
        && !isEnding(process);
  }

  /** What CRIU has left in a frozen task shows when it is thawed, and not before. */
  private static boolean isFrozen(List<ProcessIdentity> living) {
    Freezer freezer = Freezer.look();
    return living.stream().anyMatch(process -> freezer.of(process.pid()) == Freezer.State.FROZEN);
  }

  private static boolean isEnding(ProcessIdentity process) {
    return ProcFs.isEnding(process.pid());
  }

  /**
   * Waits until the pids are free. A zombie is waited for only briefly, as it is up to its parent
   * and the image is good without it; a little longer if the parent is init, which does reap, but
   * in some containers only every other second.
   *
   * @return false when some of the tree is still alive
   */
  static boolean awaitFreePids(List<ProcessIdentity> tree) {
    Deadline reap = Deadline.after(REAP_LIMIT);
    Deadline initReaps = Deadline.after(INIT_REAP_LIMIT);
    Deadline die = Deadline.after(SETTLE_LIMIT);
    while (true) {
      List<ProcStat> left = tree.stream().flatMap(process -> process.stat().stream()).toList();
      boolean onlyZombies = left.stream().allMatch(ProcStat::isDead);
      boolean onlyInits = onlyZombies && left.stream().allMatch(stat -> stat.parent() == 1);
      if (left.isEmpty() || (onlyInits ? initReaps : onlyZombies ? reap : die).passed()) {
        return onlyZombies;
      }
      LockSupport.parkNanos(PAUSE_NANOS);
    }
  }
}
