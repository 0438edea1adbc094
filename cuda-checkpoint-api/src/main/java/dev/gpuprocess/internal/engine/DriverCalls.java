package dev.gpuprocess.internal.engine;

import dev.gpuprocess.cuda.CudaDriver;
import dev.gpuprocess.cuda.CudaResult;
import dev.gpuprocess.cuda.GpuPair;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.internal.call.BoundedCall;
import dev.gpuprocess.internal.call.Stop;
import dev.gpuprocess.internal.lock.Generation;
import dev.gpuprocess.internal.lock.ProcessLock;
import dev.gpuprocess.internal.reservation.Reservation;
import dev.gpuprocess.internal.text.Printable;
import dev.gpuprocess.internal.time.Durations;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeoutException;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The driver calls of a verb that move its process, each within its deadline. A call that outlives
 * its deadline is abandoned: when it returns, the process is brought back to running and the lock
 * released. After a call that failed, the verb undoes what was done (see {@link Undo}).
 */
public final class DriverCalls {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  private final DriverOperation operation;
  private final TrackedProcess target;
  private final @Nullable ProcessLock lock;
  private final CudaDriver cuda;
  private final WayBack wayBack;
  private boolean abandoned;
  private volatile Reservation room = Reservation.NONE;
  private boolean recorded;
  private boolean moved;

  DriverCalls(DriverOperation operation, @Nullable ProcessLock lock) {
    this.operation = operation;
    this.target = operation.target();
    this.lock = lock;
    this.cuda = target.context.cuda();
    this.wayBack = new WayBack(target, lock);
  }

  /** Whether a call outlived its deadline. The lock is released when that call returns. */
  boolean isAbandoned() {
    return abandoned;
  }

  /**
   * Brings the process back from any state.
   *
   * @return false when the driver did not answer in time; the lock is released when it does
   */
  boolean bringBack() {
    try {
      return BoundedCall.run(
          target.identity,
          "bring back " + target.pid(),
          transferDeadline(),
          wayBack::go,
          (value, failed) -> endLate("bring back", value, failed, () -> {}));
    } catch (TimeoutException e) {
      abandoned = true;
      LOG.warn("process {} is brought back when the driver answers", target.pid());
      return false;
    }
  }

  /** Whether a call that moves the process was begun. */
  boolean hasMoved() {
    return moved;
  }

  /**
   * Locks the process.
   *
   * @param stop when it is asked, the call is abandoned: the driver cannot be told to give up, and
   *     goes on until the process's GPU work has ended or the timeout has passed
   */
  void lock(Duration timeout, Stop stop) {
    if (stop.isAskedEarly()) {
      throw stop.exception(
          operation.name(),
          "process " + target.pid(),
          " before it was locked",
          operation.failure(null, null));
    }
    int millis = lockMillis(timeout);
    CudaResult result =
        move(
            "lock",
            Durations.plus(timeout, controlDeadline()),
            () -> cuda.lock(target.pid(), millis),
            stop);
    if (!result.ok()) {
      throw result.equals(CudaResult.NOT_READY) && !target.isGone()
          ? CudaFailures.lockTimeout(
              target,
              timeout,
              operation.failure(result, operation.stateNow()),
              NcclAdvice.of(target))
          : operation.fail("lock", result);
    }
  }

  /**
   * The driver takes 32 bits of milliseconds, and 0 for no timeout: a timeout too long for it
   * becomes 0.
   */
  private static int lockMillis(Duration timeout) {
    long millis = Durations.millis(timeout);
    return millis > Integer.MAX_VALUE ? 0 : (int) Math.max(1, millis);
  }

  void checkpoint() {
    CudaResult result = move("checkpoint", transferDeadline(), () -> cuda.checkpoint(target.pid()));
    if (!result.ok()) {
      throw operation.fail("checkpoint", result);
    }
  }

  /**
   * Restores into reserved room. OPERATING_SYSTEM can be transient, so it is tried once more.
   *
   * @param reserved released here only by an abandoned call, when it returns
   */
  void restore(List<GpuPair> pairs, Reservation reserved) {
    room = reserved;
    CudaResult result = restoreOnce(pairs);
    if (result.equals(CudaResult.OPERATING_SYSTEM)
        && operation.stateNow() == ProcessState.CHECKPOINTED) {
      LOG.warn("the driver answers {} to restore of {}: tried once more", result, target.pid());
      result = restoreOnce(pairs);
    }
    goOn("restore", result, ProcessState.LOCKED);
  }

  private CudaResult restoreOnce(List<GpuPair> pairs) {
    return move("restore", transferDeadline(), () -> wayBack.restore(pairs));
  }

  public void unlock() {
    CudaResult result = move("unlock", controlDeadline(), () -> cuda.unlock(target.pid()));
    goOn("unlock", result, ProcessState.RUNNING);
    wayBack.unlocked();
  }

  /**
   * On the way back to running the state decides, not what the call answered; but ILLEGAL_STATE
   * means that somebody else moved the process first.
   */
  private void goOn(String function, CudaResult result, ProcessState reached) {
    if (result.ok()) {
      return;
    }
    if (result.equals(CudaResult.ILLEGAL_STATE) || operation.stateNow() != reached) {
      throw operation.fail(function, result);
    }
    LOG.warn(
        "the driver answers {} to {} of process {}, which is {} all the same",
        result,
        function,
        target.pid(),
        reached);
  }

  private CudaResult move(String function, Duration deadline, Supplier<CudaResult> body) {
    return move(function, deadline, body, null);
  }

  private CudaResult move(
      String function, Duration deadline, Supplier<CudaResult> body, @Nullable Stop stop) {
    if (lock != null && !recorded) {
      // Makes all older state objects stale, in every JVM, before the process moves.
      lock.move().ifPresent(this::moving);
    }
    moved = true;
    try {
      return BoundedCall.run(
          target.identity,
          function + " " + target.pid(),
          deadline,
          body,
          (value, failed) -> endLate(function, value, failed, wayBack::go),
          stop);
    } catch (TimeoutException e) {
      abandoned = true;
      if (stop != null && stop.isAskedEarly()) {
        throw stop.exception(
            operation.name(),
            "process " + target.pid(),
            " while the driver waited for GPU work in " + function,
            operation.failure(null, null));
      }
      throw new OperationTimedOutException(
          "the driver did not answer %s on process %s within %s: the process may be stopped or its GPU hung; if the call returns later it is undone"
              .formatted(function, target.pid(), Printable.of(deadline)),
          operation.failure(null, null),
          e);
    }
  }

  private void moving(Generation move) {
    target.sees(Optional.of(move));
    recorded = true;
  }

  /** Runs on the thread of an abandoned call when it returns after all. */
  private void endLate(
      String function, @Nullable Object value, @Nullable Throwable failed, Runnable undo) {
    LOG.info(
        "{} on process {} came back late: {}",
        function,
        target.pid(),
        failed == null ? value : failed);
    try {
      undo.run();
    } catch (RuntimeException | Error e) {
      LOG.warn("process {} could not be brought back; inspect finds it", target.pid(), e);
    } finally {
      room.close();
      if (lock != null) {
        lock.release(wayBack::go);
      }
    }
  }

  private Duration controlDeadline() {
    return target.context.timeouts().call();
  }

  private Duration transferDeadline() {
    return target.context.timeouts().transfer();
  }
}
