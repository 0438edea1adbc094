package dev.gpuprocess.internal.engine;

import dev.gpuprocess.cuda.CudaAnswer;
import dev.gpuprocess.cuda.CudaDriver;
import dev.gpuprocess.cuda.CudaResult;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.OperationInProgressException;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.error.ProcessUnreadableException;
import dev.gpuprocess.error.StaleStateException;
import dev.gpuprocess.gpu.GpuPair;
import dev.gpuprocess.internal.call.BoundedCall;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.lock.Generation;
import dev.gpuprocess.internal.lock.ProcessLock;
import dev.gpuprocess.internal.proc.Standstill;
import dev.gpuprocess.internal.room.Reservation;
import dev.gpuprocess.internal.text.Printable;
import dev.gpuprocess.internal.time.Durations;
import dev.gpuprocess.process.ProcessIdentity;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.TimeoutException;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The driver calls of one verb on one process, each within its deadline. What goes wrong becomes an
 * exception with the state before and after, and the time taken.
 */
public final class DriverOperation {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  private final TrackedProcess target;
  private final String name;
  private final @Nullable ProcessLock lock;
  private final long began = System.nanoTime();
  private final CudaDriver cuda;
  private final StateQuery states;
  private final WayBack wayBack;
  private @Nullable ProcessState before;
  private boolean abandoned;
  private volatile Reservation room = Reservation.NONE;
  private boolean moved;

  /**
   * Creates a verb.
   *
   * @param lock null for one that only reads
   */
  public DriverOperation(TrackedProcess target, String name, @Nullable ProcessLock lock) {
    this.target = target;
    this.name = name;
    this.lock = lock;
    this.cuda = target.context.cuda();
    this.states = new StateQuery(target.context, () -> failure(null, null));
    this.wayBack = new WayBack(target, lock);
  }

  /**
   * One that only reads, of whoever has a pid now.
   *
   * @throws dev.gpuprocess.error.NoSuchProcessException when there is none
   * @throws dev.gpuprocess.error.ProcessStoppedException when a driver call on it would hang
   * @throws OperationInProgressException when too many calls on it hang already
   */
  public static DriverOperation reading(EngineContext context, long pid, String name) {
    TrackedProcess target = TrackedProcess.of(context, pid, name);
    BoundedCall.requireCapacity(target.identity, name);
    DriverOperation reading = new DriverOperation(target, name, null);
    reading.states.awaitCriu(target.identity);
    target.requireReachable(name);
    return reading;
  }

  /** Reads the state, and remembers after which move of the process that was. */
  public ProcessState look() {
    return target.look(this);
  }

  /** On whom. */
  public TrackedProcess target() {
    return target;
  }

  public int pid() {
    return target.pid();
  }

  /** Whether a call outlived its deadline. The lock is released when that call returns. */
  public boolean isAbandoned() {
    return abandoned;
  }

  /**
   * Releases the lock, after bringing the process back if a close asked for that meanwhile. Does
   * nothing while an abandoned call is still out.
   */
  void releaseLock() {
    if (lock != null && !abandoned) {
      lock.release(this::bringBackInTime);
    }
  }

  private boolean bringBackInTime() {
    try {
      return BoundedCall.run(
          target.identity,
          "bring back " + target.pid(),
          target.context.timeouts().transfer(),
          wayBack::go,
          (value, failed) -> endLate("bring back", value, failed, DriverOperation::undoNothing));
    } catch (TimeoutException e) {
      abandoned = true;
      LOG.warn("process {} is brought back when the driver answers", target.pid());
      return false;
    }
  }

  /** Reads the state, for verbs that take the process as they find it. */
  public ProcessState readState() {
    CudaAnswer<ProcessState> answer = ask(target.identity);
    if (answer.value() == null) {
      throw fail("getState", answer.result());
    }
    before = answer.value();
    return answer.value();
  }

  /** Makes sure that nobody else moved the process. */
  public void require(ProcessState expected) {
    // A running process may have been suspended and resumed meanwhile: nothing depends on that.
    if (readState() != expected || (expected != ProcessState.RUNNING && isMovedByOthers())) {
      throw stale(expected);
    }
  }

  /**
   * Makes sure that nobody else moved the process. It may also be where an earlier verb of ours
   * failed.
   *
   * @return where it is
   */
  ProcessState requireOrLeftover(ProcessState expected, Set<ProcessState> leftovers) {
    ProcessState found = readState();
    boolean fits = found == expected || (leftovers.contains(found) && target.wasLeftAt(found));
    if (!fits || isMovedByOthers()) {
      throw stale(expected);
    }
    return found;
  }

  private boolean isMovedByOthers() {
    return lock != null && target.isMovedSince(lock.lastMove());
  }

  private StaleStateException stale(ProcessState expected) {
    return new StaleStateException(
        before == expected
            ? "process %s is %s again, but something else moved it since this object was made; go on with GpuProcess.inspect(%s)"
                .formatted(target.pid(), before, target.pid())
            : "process %s is %s, not %s: something else moved it; go on with GpuProcess.inspect(%s)"
                .formatted(target.pid(), before, expected, target.pid()),
        failure(null, before));
  }

  /** Reads the state of another process; empty when it has no CUDA state or is gone. */
  public Optional<ProcessState> stateOf(int other) {
    return ProcessIdentity.of(other).flatMap(process -> Optional.ofNullable(ask(process).value()));
  }

  /** Asks the driver for a state. A query that times out leaves nothing to undo. */
  private CudaAnswer<ProcessState> ask(ProcessIdentity process) {
    return lock != null && process.equals(target.identity)
        ? states.askLocked(process)
        : states.ask(process);
  }

  /** Runs a dump. Readers keep away from the process until it has ended. */
  public <T> T atCriu(Supplier<T> body) {
    if (lock == null) {
      return body.get();
    }
    lock.atCriu(true);
    try {
      return body.get();
    } finally {
      lock.atCriu(false);
    }
  }

  public void lock(Duration timeout) {
    int millis = lockMillis(timeout);
    CudaResult result =
        move(
            "lock",
            Durations.plus(timeout, controlDeadline()),
            () -> cuda.lock(target.pid(), millis));
    if (!result.ok()) {
      takeBack(result, ProcessState.LOCKED, () -> cuda.unlock(target.pid()));
      throw result.equals(CudaResult.NOT_READY) && !target.isGone()
          ? CudaFailures.lockTimeout(target, timeout, failure(result, stateNow()))
          : fail("lock", result);
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

  public void checkpoint() {
    CudaResult result =
        move(
            "checkpoint",
            target.context.timeouts().transfer(),
            () -> cuda.checkpoint(target.pid()));
    if (!result.ok()) {
      takeBack(result, ProcessState.CHECKPOINTED, wayBack::restoreIfThereIsRoom);
      throw fail("checkpoint", result);
    }
  }

  /**
   * Restores into reserved room. OPERATING_SYSTEM can be transient, so it is tried once more.
   *
   * @param reserved given back here only by a call that was left behind, when it ends
   */
  public void restore(List<GpuPair> pairs, Reservation reserved) {
    room = reserved;
    CudaResult result = restoreOnce(pairs);
    if (result.equals(CudaResult.OPERATING_SYSTEM) && stateNow() == ProcessState.CHECKPOINTED) {
      LOG.warn("the driver answers {} to restore of {}: tried once more", result, target.pid());
      result = restoreOnce(pairs);
    }
    goOn("restore", result, ProcessState.LOCKED);
  }

  private CudaResult restoreOnce(List<GpuPair> pairs) {
    return move(
        "restore", target.context.timeouts().transfer(), () -> cuda.restore(target.pid(), pairs));
  }

  public void unlock() {
    CudaResult result = move("unlock", controlDeadline(), () -> cuda.unlock(target.pid()));
    goOn("unlock", result, ProcessState.RUNNING);
  }

  /** Undoes a call that reported a failure and moved the process all the same. */
  private void takeBack(CudaResult result, ProcessState moved, Supplier<CudaResult> undo) {
    if (movedAllTheSame(result, moved)) {
      CudaResult undone = move("undo", target.context.timeouts().transfer(), undo);
      LOG.warn("process {} was {}: undone, {}", target.pid(), moved, undone);
    }
  }

  /** On the way back to running the state decides, not what the call answered. */
  private void goOn(String function, CudaResult result, ProcessState reached) {
    if (result.ok()) {
      return;
    }
    if (!movedAllTheSame(result, reached)) {
      throw fail(function, result);
    }
    LOG.warn(
        "the driver answers {} to {} of process {}, which is {} all the same",
        result,
        function,
        target.pid(),
        reached);
  }

  /** ILLEGAL_STATE means that somebody else moved the process first. */
  private boolean movedAllTheSame(CudaResult result, ProcessState moved) {
    return !result.equals(CudaResult.ILLEGAL_STATE) && stateNow() == moved;
  }

  /** Restores a process whose verb failed after the checkpoint. */
  void undoCheckpoint() {
    CudaResult result =
        move("undo", target.context.timeouts().transfer(), wayBack::restoreIfThereIsRoom);
    if (!result.ok() && stateNow() == ProcessState.CHECKPOINTED) {
      throw fail("undo", result);
    }
  }

  private CudaResult move(String function, Duration deadline, Supplier<CudaResult> body) {
    tellMove();
    return call(function, deadline, body, wayBack::go);
  }

  /** Makes all older state objects stale, in every JVM, before the process moves. */
  private void tellMove() {
    if (lock != null && !moved) {
      lock.move().ifPresent(this::moving);
    }
  }

  private void moving(Generation move) {
    target.sees(Optional.of(move));
    moved = true;
  }

  private static void undoNothing() {}

  private <T> T call(String function, Duration deadline, Supplier<T> body, Runnable undo) {
    try {
      return BoundedCall.run(
          target.identity,
          function + " " + target.pid(),
          deadline,
          body,
          (value, failed) -> endLate(function, value, failed, undo));
    } catch (TimeoutException e) {
      abandoned = true;
      throw new OperationTimedOutException(
          "the driver did not answer %s on process %s within %s: the process may be stopped or its GPU hung; if the call returns later it is undone"
              .formatted(function, target.pid(), Printable.of(deadline)),
          failure(null, null),
          e);
    }
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

  private RuntimeException fail(String function, CudaResult result) {
    return CudaFailures.of(function, target, failure(result, stateNow()));
  }

  /** The data for an exception of this verb. */
  public Failure failure(@Nullable CudaResult result, @Nullable ProcessState after) {
    return new Failure(
        name,
        target.pid(),
        before,
        after,
        Duration.ofNanos(System.nanoTime() - began),
        result,
        null);
  }

  /**
   * The state after a failure; null where it cannot be read, since the failure itself matters more.
   */
  public @Nullable ProcessState stateNow() {
    if (abandoned) {
      return null;
    }
    try {
      if (!target.identity.isAlive() || Standstill.of(target.pid()).isPresent()) {
        return null;
      }
      return ask(target.identity).value();
    } catch (OperationTimedOutException
        | OperationInProgressException
        | ProcessUnreadableException e) {
      LOG.debug("the state of process {} cannot be read", target.pid(), e);
      return null;
    }
  }
}
