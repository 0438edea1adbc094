package dev.gpuprocess.internal.engine;

import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.error.OperationCancelledException;
import dev.gpuprocess.error.OperationInProgressException;
import dev.gpuprocess.error.StaleStateException;
import dev.gpuprocess.internal.call.BoundedCall;
import dev.gpuprocess.internal.call.Stop;
import dev.gpuprocess.internal.linux.ProcessKey;
import dev.gpuprocess.internal.proc.Unreadable;
import dev.gpuprocess.internal.time.Deadline;
import dev.gpuprocess.internal.time.Durations;
import dev.gpuprocess.internal.time.Uninterrupted;
import dev.gpuprocess.options.Cancellation;
import dev.gpuprocess.options.Timeouts;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.Predicate;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Resumes the processes that this JVM has suspended when it exits, if the settings request it. A
 * shutdown hook is registered only while there are such processes. Does not keep state objects from
 * garbage collection. Safe for use by several threads.
 */
final class ResumeOnExit {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  /** Cancelled when this JVM exits. Guarded by the monitor of {@link #AWAY}. */
  private static final Cancellation EXIT = new Cancellation();

  /** The trees that are not running, or may soon not be. */
  private static final Map<ProcessKey, TrackedTree> AWAY = new HashMap<>();

  private static @Nullable Thread hook;

  private ResumeOnExit() {}

  /** Lets the exit of this JVM end a verb that leads away from running. */
  static void endEarly(TrackedTree tree, Stop stop) {
    if (tree.context.resumeOnExit()) {
      stop.when(EXIT, Stop.Reason.EXITING);
    }
  }

  /**
   * Records that a verb is about to take a process away from running.
   *
   * @throws OperationCancelledException when this JVM is exiting; nothing was touched
   */
  static void leaving(TrackedTree tree, String verb) {
    if (!tree.context.resumeOnExit()) {
      return;
    }
    synchronized (AWAY) {
      if (EXIT.isCancelled() || !register()) {
        throw new OperationCancelledException(
            "%s of %s was not begun because this JVM is exiting".formatted(verb, tree.name()),
            Failure.of(verb, tree.root.pid()));
      }
      // A member that another verb is taking away now is still recorded as running.
      AWAY.values().removeIf(each -> allMembers(each, TrackedProcess::isGone));
      AWAY.put(tree.key(), tree);
    }
  }

  /** Registers the shutdown hook; false when it is too late, as this JVM is exiting. */
  private static boolean register() {
    if (hook != null) {
      return true;
    }
    Thread made = new Thread(ResumeOnExit::run, "gpuprocess resume on exit");
    try {
      Runtime.getRuntime().addShutdownHook(made);
      hook = made;
      return true;
    } catch (IllegalStateException exiting) {
      return false;
    }
  }

  /** Removes the record after a verb, if the process is running again, or has exited. */
  static void settle(TreeOperation operation) {
    TrackedTree tree = operation.tree();
    if (!tree.context.resumeOnExit()) {
      return;
    }
    synchronized (AWAY) {
      if (isBack(tree) && remove(operation) && AWAY.isEmpty()) {
        unregister();
      }
    }
  }

  /** Keeps the record of another tree object, unless this verb itself has seen the process run. */
  private static boolean remove(TreeOperation operation) {
    TrackedTree tree = operation.tree();
    boolean hasSeenItRun = operation.hasMoved() || operation.before() == ProcessState.RUNNING;
    return hasSeenItRun ? AWAY.remove(tree.key()) != null : AWAY.remove(tree.key(), tree);
  }

  private static void unregister() {
    try {
      if (hook != null && Runtime.getRuntime().removeShutdownHook(hook)) {
        hook = null;
      }
    } catch (IllegalStateException exiting) {
      LOG.debug("this JVM is exiting");
    }
  }

  private static boolean isBack(TrackedTree tree) {
    return allMembers(tree, each -> each.lastKnown() == ProcessState.RUNNING || each.isGone());
  }

  private static boolean allMembers(TrackedTree tree, Predicate<TrackedProcess> condition) {
    return Unreadable.as(false, () -> tree.members().stream().allMatch(condition));
  }

  private static void run() {
    List<TrackedTree> away;
    synchronized (AWAY) {
      EXIT.cancel();
      away = List.copyOf(AWAY.values());
    }
    resumeAll(away);
  }

  /** Resumes trees side by side, those last for which no thread can be started. */
  static void resumeAll(List<TrackedTree> away) {
    Duration longest = Duration.ZERO;
    CountDownLatch left = new CountDownLatch(away.size());
    List<Runnable> here = new ArrayList<>();
    for (TrackedTree each : away) {
      Duration limit = limit(each.context.timeouts());
      longest = Durations.max(limit, longest);
      Runnable resume =
          () -> {
            try {
              resume(each, Deadline.after(limit));
            } finally {
              left.countDown();
            }
          };
      try {
        BoundedCall.THREADS.execute(resume);
      } catch (OutOfMemoryError noThread) {
        LOG.warn("no thread can be started to resume {}, which is done later", each.name());
        here.add(resume);
      }
    }
    here.forEach(Runnable::run);
    boolean all =
        Uninterrupted.until(
            Deadline.after(longest), nanos -> left.await(nanos, TimeUnit.NANOSECONDS));
    if (!all) {
      LOG.warn(
          "{} processes are not resumed yet and this JVM exits; GpuCheckpoints.recover()"
              + " resumes them",
          left.getCount());
    }
  }

  /** Returns the time for one tree: a verb under way may take a lock's time, a restore waits. */
  private static Duration limit(Timeouts timeouts) {
    return Durations.plus(Durations.plus(timeouts.lock(), timeouts.call()), timeouts.memory());
  }

  /** Resumes a tree after the verb that is under way on it: a dump is not rolled back. */
  private static void resume(TrackedTree tree, Deadline deadline) {
    while (true) {
      int generation = tree.generation();
      try {
        StateHandle resumed =
            new StateHandle(tree, generation, List.of())
                .bringBack(
                    "resume on exit",
                    ProcessState.CHECKPOINTED,
                    ProcessState.RUNNING,
                    Set.of(ProcessState.LOCKED, ProcessState.RUNNING),
                    operation ->
                        Resumption.patient(tree.context, operation.members()).resumeFound(),
                    handle -> handle);
        LOG.info("{} is resumed as this JVM exits", resumed.tree().name());
        return;
      } catch (NoSuchProcessException e) {
        LOG.debug("{} has ended", tree.name(), e);
        return;
      } catch (OperationInProgressException e) {
        if (deadline.passed()) {
          LOG.warn("{} is not resumed as this JVM exits: {}", tree.name(), e.getMessage());
          return;
        }
      } catch (StaleStateException e) {
        if (tree.isCurrent(generation)) {
          LOG.info("{} is not resumed as this JVM exits: {}", tree.name(), e.getMessage());
          return;
        }
      } catch (RuntimeException | Error e) {
        LOG.warn("{} is not resumed as this JVM exits", tree.name(), e);
        return;
      }
    }
  }
}
