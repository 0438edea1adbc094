package dev.gpuprocess.criu.internal.tree;

import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.linux.Processes;
import dev.gpuprocess.internal.proc.Freezer;
import dev.gpuprocess.internal.proc.LifeSign;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.internal.proc.Signals;
import dev.gpuprocess.internal.time.Deadline;
import dev.gpuprocess.internal.time.Uninterrupted;
import dev.gpuprocess.report.ProcessIdentity;
import java.time.Duration;
import java.util.EnumSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;

/** The fate of a process tree after a dump, according to the kernel when CRIU is gone. */
public enum TreeFate {
  /** No process is traced, frozen or ending. */
  RUNS,
  /** All processes are gone. */
  GONE,
  /** All remaining processes were killed, but are not gone yet. */
  DYING,
  /** A process is still traced or frozen, after the longest time of CRIU's cleanup. */
  UNSETTLED;

  private static final Duration SETTLE_LIMIT = Duration.ofSeconds(5);

  /** When the images are complete, no one waits for the process, so there is time to be certain. */
  private static final Duration CERTAINTY_LIMIT = Duration.ofSeconds(20);

  private static final Duration MOMENT = Duration.ofMillis(100);
  private static final long PAUSE_NANOS = 500_000;

  /**
   * Waits until the answer can no longer change.
   *
   * @param tree all its processes
   * @param mayDie whether its images are complete: then the rest of a partly killed tree is killed
   *     too, and a process that is being killed counts as ended
   */
  public static TreeFate of(List<ProcessIdentity> tree, boolean mayDie) throws NativeCallException {
    Deadline deadline = Deadline.after(mayDie ? CERTAINTY_LIMIT : SETTLE_LIMIT);
    while (true) {
      Set<LifeSign> signs = signs(tree);
      if (signs.equals(EnumSet.of(LifeSign.GONE))) {
        return GONE;
      }
      boolean ends = isEnding(signs);
      if (mayDie && ends) {
        return DYING;
      }
      if (mayDie && (signs.contains(LifeSign.GONE) || signs.contains(LifeSign.ENDING))) {
        killLiving(tree);
      } else if (!signs.contains(LifeSign.HELD) && !signs.contains(LifeSign.ENDING)) {
        return isFrozen(tree) ? UNSETTLED : RUNS;
      }
      if (deadline.passed()) {
        return ends ? DYING : UNSETTLED;
      }
      Uninterrupted.pause(PAUSE_NANOS);
    }
  }

  private static void killLiving(List<ProcessIdentity> tree) throws NativeCallException {
    for (ProcessIdentity process : tree) {
      LifeSign sign = sign(process);
      if (sign == LifeSign.FREE || sign == LifeSign.HELD) {
        Processes.signal(process, Signals.SIGKILL);
      }
    }
  }

  private static Set<LifeSign> signs(List<ProcessIdentity> tree) {
    return tree.stream()
        .map(TreeFate::sign)
        .collect(Collectors.toCollection(() -> EnumSet.noneOf(LifeSign.class)));
  }

  private static LifeSign sign(ProcessIdentity process) {
    return process.isAlive() ? LifeSign.of(process.pid()) : LifeSign.GONE;
  }

  private static boolean isEnding(Set<LifeSign> signs) {
    return EnumSet.of(LifeSign.GONE, LifeSign.ENDING).containsAll(signs);
  }

  /**
   * The same, after each process has run again. A CRIU that is killed while a task executes its
   * parasite code leaves the task just before a breakpoint, which kills the task as soon as it
   * runs.
   */
  public static TreeFate onceItHasRun(List<ProcessIdentity> tree, boolean mayDie)
      throws NativeCallException {
    List<Long> before = tree.stream().map(TreeFate::nanosOnCpu).toList();
    Deadline moment = Deadline.after(MOMENT);
    boolean unused =
        Deadline.after(SETTLE_LIMIT)
            .await(PAUSE_NANOS, () -> moment.passed() && haveRun(tree, before));
    return of(tree, mayDie);
  }

  /**
   * A process that sleeps must have run; on a busy machine, one that is runnable may still be
   * waiting for a CPU.
   */
  private static boolean haveRun(List<ProcessIdentity> tree, List<Long> before) {
    for (int i = 0; i < tree.size(); i++) {
      Optional<ProcStat> stat = Processes.stat(tree.get(i));
      if (stat.filter(s -> s.state() == 'R').isPresent()
          && nanosOnCpu(tree.get(i)) == before.get(i)) {
        return false;
      }
    }
    return true;
  }

  /** Injected code in a frozen task takes effect only when the task is thawed. */
  private static boolean isFrozen(List<ProcessIdentity> tree) {
    Freezer freezer = Freezer.look();
    return tree.stream()
        .filter(ProcessIdentity::isAlive)
        .anyMatch(process -> freezer.of(process.pid()) == Freezer.State.FROZEN);
  }

  private static long nanosOnCpu(ProcessIdentity process) {
    // Not every kernel has it; then waiting for a moment must suffice.
    return ProcFs.read(process.pid(), "schedstat")
        .map(text -> Long.parseLong(text.split(" ")[0]))
        .orElseGet(System::nanoTime);
  }

  /**
   * Waits until all of a tree that CRIU has killed is ending or gone.
   *
   * @return false if some of it is still alive
   */
  public static boolean awaitKill(List<ProcessIdentity> tree) {
    return Deadline.after(SETTLE_LIMIT).await(PAUSE_NANOS, () -> isEnding(signs(tree)));
  }
}
