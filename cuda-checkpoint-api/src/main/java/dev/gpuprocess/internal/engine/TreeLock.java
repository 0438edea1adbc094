package dev.gpuprocess.internal.engine;

import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.FixAndRetryException;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.LockTimeoutException;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.error.OperationInProgressException;
import dev.gpuprocess.error.ProcessUnfitException;
import dev.gpuprocess.internal.call.Stop;
import dev.gpuprocess.internal.state.ProcessLock;
import dev.gpuprocess.internal.time.Deadline;
import dev.gpuprocess.internal.time.Durations;
import java.time.Duration;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Locks all members of a tree within one deadline, including members that appear while it locks.
 *
 * <p>All are locked at the same time, since a member that waits for GPU work of another member
 * never becomes idle once the other is locked. That can still happen, so the first attempts get
 * only a part of the time; when one fails, all members are unlocked for a moment.
 */
final class TreeLock {

  /** Bounds for the first attempt. */
  private static final Duration LEAST = Duration.ofMillis(100);

  private static final Duration MOST = Duration.ofSeconds(10);

  private static final Duration PAUSE = Duration.ofMillis(250);

  /** The first attempt's part of the time; each later one has twice that of the one before. */
  private static final int FIRST_PART = 8;

  private final TreeOperation operation;
  private final Stop stop;

  TreeLock(TreeOperation operation, Stop stop) {
    this.operation = operation;
    this.stop = stop;
  }

  /** Locks all members. If it throws, the caller rolls back. */
  void run(Duration patience) {
    Deadline deadline = Deadline.after(patience);
    Duration part = Durations.bounded(patience).dividedBy(FIRST_PART);
    part = Durations.min(Durations.max(part, LEAST), MOST);
    Duration left = patience;
    while (true) {
      // The last attempt is one after which no time for another would be left.
      boolean isLast = isAlone() || part.multipliedBy(3).compareTo(left) > 0;
      try {
        attempt(isLast ? left : part);
        return;
      } catch (RuntimeException e) {
        if (isAlone() || !mayPass(e) || deadline.remaining().compareTo(PAUSE.plus(LEAST)) <= 0) {
          throw e;
        }
        unlockAll(e);
      }
      left = deadline.remaining();
      part = part.multipliedBy(2);
    }
  }

  /** A single process waits for no other, so a second attempt would not help. */
  private boolean isAlone() {
    return operation.tree().members().size() <= 1;
  }

  /** Whether another attempt may succeed. */
  private static boolean mayPass(RuntimeException e) {
    GpuCheckpointException.@Nullable Reason reason =
        e instanceof GpuCheckpointException known ? known.reason() : null;
    return e instanceof NoSuchProcessException
        || e instanceof LockTimeoutException
        || e instanceof OperationInProgressException
        || reason == FixAndRetryException.Reason.WRONG_STATE
        || reason == ProcessUnfitException.Reason.DRIVER_ERROR;
  }

  private void unlockAll(RuntimeException why) {
    Resumption.undo(operation.members(), ProcessState.RUNNING, why);
    operation.removeExited();
    if (operation.members().isEmpty() && !operation.root().isAlive()) {
      throw why;
    }
    for (ProcessOperation each : operation.members()) {
      if (each.stateNow() != ProcessState.RUNNING) {
        throw why;
      }
    }
    stop.pause(PAUSE);
    if (stop.reason().isPresent()) {
      throw stop.exception(
          operation.verb(),
          operation.tree().name(),
          " while it waited for GPU work",
          operation.failure(null, null));
    }
  }

  private void attempt(Duration time) {
    Deadline deadline = Deadline.after(time);
    List<ProcessOperation> next = operation.members();
    // The entries were removed when the members were unlocked after an earlier attempt.
    next.forEach(each -> each.process().note("lock", ProcessLock.Kind.MOVE));
    Duration left = time;
    do {
      Suspension.lock(next, left, stop);
      left = deadline.remaining();
      next = newMembers();
    } while (!next.isEmpty());
  }

  /** Returns the members that appeared since the last search. They are not locked yet. */
  private List<ProcessOperation> newMembers() {
    List<TrackedProcess> found =
        new TreeSearch(operation.tree().context, operation.tree().root, "lock")
            .newMembers(operation.tree().members());
    found.forEach(operation::add);
    List<ProcessOperation> members =
        operation.members().stream().filter(each -> found.contains(each.process())).toList();
    for (ProcessOperation each : members) {
      each.require(ProcessState.RUNNING);
      each.process().note("lock", ProcessLock.Kind.MOVE);
    }
    return members;
  }
}
