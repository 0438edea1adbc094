package dev.gpuprocess.internal.engine;

import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.CudaDriverException;
import dev.gpuprocess.error.LockTimeoutException;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.error.OperationInProgressException;
import dev.gpuprocess.error.WrongStateException;
import dev.gpuprocess.internal.call.Stop;
import dev.gpuprocess.internal.lock.ProcessLock;
import dev.gpuprocess.internal.time.Durations;
import java.time.Duration;
import java.util.List;

/**
 * Locks all CUDA processes of a tree within one deadline, those included that come while it locks.
 *
 * <p>All are locked at the same time, since one that waits for the GPU work of another never comes
 * to rest when the other is locked already. That can happen all the same, so the first attempts get
 * a part of the time only; when one fails all members are let go for a moment.
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

  /** All members are locked when this returns; when it throws the caller undoes what is left. */
  void run(Duration patience) {
    long end = Durations.end(patience);
    Duration part = Durations.bounded(patience).dividedBy(FIRST_PART);
    part = smaller(larger(part, LEAST), MOST);
    Duration left = patience;
    while (true) {
      // What would be left after it is no time for another attempt.
      boolean isLast = isAlone() || part.multipliedBy(3).compareTo(left) > 0;
      try {
        attempt(isLast ? left : part);
        return;
      } catch (RuntimeException e) {
        if (isAlone() || !mayPass(e) || Durations.left(end) <= PAUSE.toNanos() + LEAST.toNanos()) {
          throw e;
        }
        letGo(e);
      }
      left = Durations.remaining(end);
      part = part.multipliedBy(2);
    }
  }

  /** One process waits for no other, so a second attempt would do no better. */
  private boolean isAlone() {
    return operation.tree().members().size() <= 1;
  }

  private static Duration smaller(Duration one, Duration other) {
    return one.compareTo(other) < 0 ? one : other;
  }

  private static Duration larger(Duration one, Duration other) {
    return one.compareTo(other) > 0 ? one : other;
  }

  /** Whether another attempt may succeed. */
  private static boolean mayPass(RuntimeException e) {
    return e instanceof LockTimeoutException
        || e instanceof WrongStateException
        || e instanceof NoSuchProcessException
        || e instanceof OperationInProgressException
        || e instanceof CudaDriverException;
  }

  private void letGo(RuntimeException why) {
    new Undo(operation.members()).backTo(ProcessState.RUNNING, why);
    operation.dropTheDead();
    for (DriverOperation each : operation.each()) {
      if (each.stateNow() != ProcessState.RUNNING) {
        throw why;
      }
    }
    stop.pause(PAUSE);
    if (stop.reason().isPresent()) {
      throw stop.exception(
          operation.name(),
          operation.tree().name(),
          " while it waited for GPU work",
          operation.failure(null, null));
    }
  }

  private void attempt(Duration time) {
    long end = Durations.end(time);
    List<Member> next = operation.members();
    // A later attempt begins here too, and the entries were removed when all were let go.
    next.forEach(each -> each.target().note("lock", ProcessLock.Kind.MOVE));
    Duration left = time;
    do {
      Suspension.lock(next, left, stop);
      left = Durations.remaining(end);
      next = newcomers();
    } while (!next.isEmpty());
  }

  /** CUDA processes that came since the tree was looked at. They are not locked yet. */
  private List<Member> newcomers() {
    List<TrackedProcess> found =
        new MemberScan(operation.tree().context, operation.tree().root, "lock")
            .newcomers(operation.tree().members());
    found.forEach(operation::add);
    List<Member> members =
        operation.members().stream().filter(each -> found.contains(each.target())).toList();
    for (Member each : members) {
      each.operation().require(ProcessState.RUNNING);
      each.target().note("lock", ProcessLock.Kind.MOVE);
    }
    return members;
  }
}
