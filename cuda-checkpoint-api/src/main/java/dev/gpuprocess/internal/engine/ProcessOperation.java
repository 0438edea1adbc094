package dev.gpuprocess.internal.engine;

import dev.gpuprocess.cuda.CudaAnswer;
import dev.gpuprocess.cuda.CudaDriver;
import dev.gpuprocess.cuda.CudaResult;
import dev.gpuprocess.cuda.GpuUuid;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.error.NotCudaProcessException;
import dev.gpuprocess.error.OperationCancelledException;
import dev.gpuprocess.error.OperationInProgressException;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.error.StaleStateException;
import dev.gpuprocess.internal.call.BoundedCall;
import dev.gpuprocess.internal.call.StateReading;
import dev.gpuprocess.internal.call.Stop;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.proc.Standstill;
import dev.gpuprocess.internal.proc.Unreadable;
import dev.gpuprocess.internal.reservation.Reservation;
import dev.gpuprocess.internal.state.ProcessLock;
import dev.gpuprocess.internal.text.Printable;
import dev.gpuprocess.internal.time.Deadline;
import dev.gpuprocess.internal.time.Durations;
import java.time.Duration;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.TimeoutException;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One verb at work on one process. It checks that the process is in the expected state, makes the
 * driver calls that move it, each within its deadline, and gives exceptions the state before and
 * after and the time taken. A call that does not return within its deadline is abandoned: when it
 * returns, the process is brought back to running and its lock is released. After a call that
 * failed, the verb rolls back (see {@link Resumption#rollBack}). For one thread.
 */
public final class ProcessOperation {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  private final TrackedProcess process;
  private final String verb;
  private final @Nullable ProcessLock lock;
  private final @Nullable TrackedTree tree;
  private final CudaDriver cuda;
  private final long began = System.nanoTime();
  private final StateQuery states;
  private @Nullable StepRecorder steps;
  private @Nullable ProcessState before;
  private boolean abandoned;
  private volatile Reservation reservation = Reservation.NONE;
  private boolean recorded;
  private boolean moved;
  private boolean checkpointBegun;

  /** The state to which the last call led; null unless that was a restore or unlock that worked. */
  private @Nullable ProcessState reached;

  /** Creates a verb that only reads. */
  ProcessOperation(TrackedProcess process, String verb) {
    this(process, verb, null, null);
  }

  /**
   * Creates a verb.
   *
   * @param lock null for a verb that only reads
   * @param tree whose members are moved together; null for a verb that only reads
   */
  ProcessOperation(
      TrackedProcess process, String verb, @Nullable ProcessLock lock, @Nullable TrackedTree tree) {
    this.process = process;
    this.verb = verb;
    this.lock = lock;
    this.tree = tree;
    this.cuda = process.context.cuda();
    this.states = new StateQuery(process.context, () -> failure(null, null));
  }

  /**
   * Creates a verb that only reads the process that has a pid now.
   *
   * @throws NoSuchProcessException when it does not exist
   * @throws dev.gpuprocess.error.FixAndRetryException with reason PROCESS_STOPPED when a driver
   *     call on it would hang
   * @throws OperationInProgressException when too many calls on it hang already
   */
  public static ProcessOperation reading(EngineContext context, long pid, String verb) {
    TrackedProcess process = TrackedProcess.of(context, pid, verb);
    BoundedCall.requireCapacity(process.identity, verb);
    ProcessOperation reading = new ProcessOperation(process, verb);
    reading.awaitCriu();
    process.requireReachable(verb);
    return reading;
  }

  /**
   * Waits until CRIU, which stops the process while it works on it, has finished.
   *
   * @throws OperationInProgressException when that takes too long
   */
  void awaitCriu() {
    states.awaitCriu(process.identity);
  }

  /**
   * Reads a state, a second time if the driver answers that the process has no CUDA state. A caller
   * that trusts one wrong answer forgets the process, and no other controller knows of it.
   *
   * @throws NotCudaProcessException when the driver answers so twice
   */
  public static ProcessState readTwice(Supplier<ProcessState> read) {
    try {
      return read.get();
    } catch (NotCudaProcessException e) {
      return read.get();
    }
  }

  public TrackedProcess process() {
    return process;
  }

  public int pid() {
    return process.pid();
  }

  /** Returns the lock; empty for a verb that only reads. */
  Optional<ProcessLock> lock() {
    return Optional.ofNullable(lock);
  }

  /** Measures the steps with a recorder from now on. */
  void measuredBy(StepRecorder recorder) {
    steps = recorder;
  }

  /** Returns the recorder of the steps on this process. */
  public StepRecorder steps() {
    return Objects.requireNonNull(steps, "steps");
  }

  /** Returns the state that was read last; null before that. */
  @Nullable ProcessState before() {
    return before;
  }

  /** Returns the state that was read last; only after that. */
  ProcessState found() {
    return Objects.requireNonNull(before, "no state was read");
  }

  /** Reads the state, and remembers after which move of the process that was. */
  public ProcessState look() {
    return process.look(this);
  }

  /** Reads the state, for verbs that begin in any state. */
  public ProcessState readState() {
    CudaAnswer<ProcessState> answer = ask();
    if (answer.value() == null) {
      throw fail("getState", answer.result());
    }
    before = answer.value();
    return answer.value();
  }

  /** Checks that the process is in a state and was moved by no other controller. */
  public void require(ProcessState expected) {
    // A running process may have been suspended and resumed since then: nothing depends on that.
    if (readState() != expected || (expected != ProcessState.RUNNING && isMovedByOthers())) {
      throw stale(expected);
    }
    if (expected == ProcessState.RUNNING) {
      process.foundRunning();
    }
  }

  /**
   * Checks that the process is in a state, or in one where an earlier verb of ours failed, and was
   * moved by no other controller.
   */
  void requireOrLeftover(ProcessState expected, Set<ProcessState> leftovers) {
    ProcessState found = readState();
    boolean fits = found == expected || (leftovers.contains(found) && process.lastKnown() == found);
    if (!fits || isMovedByOthers()) {
      throw stale(expected);
    }
  }

  /** Checks that no other controller has moved the process, or that it is running again. */
  void requireNotTaken() {
    if (isMovedByOthers() && stateNow() != ProcessState.RUNNING) {
      throw movedByOthers(process, failure(null, null));
    }
  }

  static StaleStateException movedByOthers(TrackedProcess process, Failure failure) {
    return new StaleStateException(
        "process %s was moved by another controller: go on with GpuProcess.inspect(%s)"
            .formatted(process.pid(), process.pid()),
        failure);
  }

  private boolean isMovedByOthers() {
    return lock != null && process.isMovedSince(lock.lastMove());
  }

  private StaleStateException stale(ProcessState expected) {
    return new StaleStateException(
        before == expected
            ? "process %s is %s again, but something else moved it since this object was made; go on with GpuProcess.inspect(%s)"
                .formatted(pid(), before, pid())
            : "process %s is %s, not %s: something else moved it; go on with GpuProcess.inspect(%s)"
                .formatted(pid(), before, expected, pid()),
        failure(null, before));
  }

  private CudaAnswer<ProcessState> ask() {
    return lock == null ? states.ask(process.identity) : states.askLocked(process.identity);
  }

  /** Returns the state after a failure, without waiting for a driver that did not answer before. */
  @Nullable ProcessState stateIfAnswered() {
    return StateReading.isLeftBehind(cuda, pid()) ? null : stateNow();
  }

  /**
   * Returns the state after a failure; null if it cannot be read, since the failure itself matters
   * more.
   */
  public @Nullable ProcessState stateNow() {
    if (abandoned) {
      return null;
    }
    try {
      if (!process.identity.isAlive() || Standstill.of(pid()).isPresent()) {
        return null;
      }
      return ask().value();
    } catch (GpuCheckpointException e) {
      LOG.debug("the state of process {} cannot be read", pid(), e);
      return null;
    }
  }

  /**
   * Remembers and journals the state; if it cannot be read, the one to which a restore or unlock of
   * this verb led, since no other controller moves the process before this verb ends; a process
   * that was unlocked then leaves no entry behind.
   */
  void recordState() {
    ProcessState now = stateNow();
    process.setState(now == null ? reached : now);
  }

  /**
   * Returns whether the process is checkpointed, or may be: its checkpoint was begun, and its state
   * cannot be read. An abandoned call rolls back when it returns.
   */
  boolean mayBeCheckpointed() {
    ProcessState now = stateNow();
    boolean isUnknown = now == null && checkpointBegun && !abandoned;
    return now == ProcessState.CHECKPOINTED
        || (isUnknown && !Unreadable.as(false, process::isGone));
  }

  /** Returns the data for an exception of this verb. */
  public Failure failure(@Nullable CudaResult result, @Nullable ProcessState after) {
    return new Failure(
        verb, pid(), before, after, Duration.ofNanos(System.nanoTime() - began), result, null);
  }

  private RuntimeException fail(String function, CudaResult result) {
    return CudaFailures.of(function, process, failure(result, stateNow()));
  }

  /** Returns whether a call was abandoned. The lock is released when that call returns. */
  boolean isAbandoned() {
    return abandoned;
  }

  /** Returns whether a call that moves the process was begun. */
  boolean hasMoved() {
    return moved;
  }

  /**
   * Locks the process.
   *
   * @param stop ends the wait: the driver cannot cancel a lock, so the call is abandoned, and
   *     continues until the GPU work has ended or the timeout has passed
   */
  void lock(Duration timeout, Stop stop) {
    if (stop.isAskedEarly()) {
      throw stop.exception(verb, "process " + pid(), " before it was locked", failure(null, null));
    }
    int millis = lockMillis(timeout);
    CudaResult result =
        move(
            "lock",
            Durations.plus(timeout, controlDeadline()),
            () -> cuda.lock(pid(), millis),
            stop);
    if (!result.ok()) {
      throw result.equals(CudaResult.NOT_READY) && !process.isGone()
          ? CudaFailures.lockTimeout(
              process, timeout, failure(result, stateNow()), PeerMemoryCheck.advice(process))
          : fail("lock", result);
    }
  }

  /**
   * Returns the timeout as the driver takes it: 32 bits of milliseconds, and 0 for no timeout. A
   * timeout too long for it becomes 0.
   */
  private static int lockMillis(Duration timeout) {
    long millis = Durations.millis(timeout);
    return millis > Integer.MAX_VALUE ? 0 : (int) Math.max(1, millis);
  }

  void checkpoint() {
    checkpointBegun = true;
    CudaResult result = move("checkpoint", transferDeadline(), () -> cuda.checkpoint(pid()), null);
    if (!result.ok()) {
      throw fail("checkpoint", result);
    }
  }

  /**
   * Restores into reserved memory. OPERATING_SYSTEM can be transient, so it is tried once more.
   *
   * @param reserved released here only by an abandoned call, when it returns
   */
  void restore(Map<GpuUuid, GpuUuid> pairs, Reservation reserved, RestoreLimit limit) {
    reservation = reserved;
    CudaResult result = restoreOnce(pairs, limit);
    if (result.equals(CudaResult.OPERATING_SYSTEM) && stateNow() == ProcessState.CHECKPOINTED) {
      LOG.warn("the driver answers {} to restore of {}: tried a second time", result, pid());
      result = restoreOnce(pairs, limit);
    }
    requireReached("restore", result, ProcessState.LOCKED);
  }

  private CudaResult restoreOnce(Map<GpuUuid, GpuUuid> pairs, RestoreLimit limit) {
    Deadline transfer = Deadline.after(transferDeadline());
    begin();
    try {
      return BoundedCall.run(
          process.identity,
          "restore " + pid(),
          limit.slice(transfer),
          () -> limit.slice(transfer),
          () -> Resumption.restore(process, pairs),
          (value, failed) -> endLate("restore", value, failed, true));
    } catch (TimeoutException e) {
      abandoned = true;
      if (limit.isCancelled()) {
        throw new OperationCancelledException(
            "%s of process %s was cancelled, and the driver did not finish its restore within %s"
                .formatted(verb, pid(), Printable.of(controlDeadline())),
            failure(null, null));
      }
      if (limit.passed()) {
        throw new OperationTimedOutException(
            "%s of process %s did not end within its deadline of %s"
                .formatted(verb, pid(), Printable.of(limit.total())),
            failure(null, null),
            e);
      }
      throw unanswered("restore", transferDeadline(), e);
    }
  }

  public void unlock() {
    CudaResult result = move("unlock", controlDeadline(), () -> cuda.unlock(pid()), null);
    requireReached("unlock", result, ProcessState.RUNNING);
    Resumption.removeChanges(process, ProcessState.RUNNING);
  }

  /**
   * Remembers the state to which a call towards running led, or throws if it failed. The state
   * decides, not the answer of the call; but ILLEGAL_STATE means that something else moved the
   * process first.
   */
  private void requireReached(String function, CudaResult result, ProcessState expected) {
    if (!result.ok()) {
      if (result.equals(CudaResult.ILLEGAL_STATE) || stateNow() != expected) {
        throw fail(function, result);
      }
      LOG.warn(
          "the driver answers {} to {} of process {}, which is {} all the same",
          result,
          function,
          pid(),
          expected);
    }
    reached = expected;
    process.foundIn(expected);
  }

  private CudaResult move(
      String function, Duration deadline, Supplier<CudaResult> call, @Nullable Stop stop) {
    begin();
    try {
      return BoundedCall.run(
          process.identity,
          function + " " + pid(),
          deadline,
          call,
          (value, failed) -> endLate(function, value, failed, true),
          stop);
    } catch (TimeoutException e) {
      abandoned = true;
      if (stop != null && stop.isAskedEarly()) {
        throw stop.exception(
            verb,
            "process " + pid(),
            " while the driver waited for GPU work in " + function,
            failure(null, null));
      }
      throw unanswered(function, deadline, e);
    }
  }

  private OperationTimedOutException unanswered(
      String function, Duration deadline, TimeoutException e) {
    return new OperationTimedOutException(
        "the driver did not answer %s on process %s within %s: the process may be stopped or its GPU hung"
            .formatted(function, pid(), Printable.of(deadline)),
        failure(null, null),
        e);
  }

  /** Makes all older state objects stale before the first move, in every JVM. */
  private void begin() {
    if (lock != null && !recorded) {
      lock.move()
          .ifPresent(
              move -> {
                process.observeGeneration(move);
                recorded = true;
              });
    }
    moved = true;
    reached = null;
  }

  /**
   * Releases the lock, after bringing the process back if a close requested that in between. Does
   * nothing while a call is abandoned.
   */
  void releaseLock() {
    if (lock != null && !abandoned) {
      lock.release(this::bringBack);
    }
  }

  /**
   * Brings the process back to running from any state.
   *
   * @return false when the driver did not answer in time; the lock is released when it does
   */
  private boolean bringBack() {
    try {
      return BoundedCall.run(
          process.identity,
          "bring back " + pid(),
          transferDeadline(),
          () -> Resumption.bringBack(process, lock, tree),
          (value, failed) -> endLate("bring back", value, failed, false));
    } catch (TimeoutException e) {
      abandoned = true;
      LOG.warn("process {} is brought back when the driver answers", pid());
      return false;
    }
  }

  /** Runs on the thread of an abandoned call when it returns after all. */
  private void endLate(
      String function, @Nullable Object value, @Nullable Throwable failed, boolean undo) {
    LOG.info(
        "{} on process {} returned late: {}", function, pid(), failed == null ? value : failed);
    try {
      if (undo) {
        boolean unused = Resumption.bringBack(process, lock, tree);
      }
    } catch (RuntimeException | Error e) {
      LOG.warn("process {} could not be brought back; inspect finds it", pid(), e);
    } finally {
      reservation.close();
      if (lock != null) {
        lock.release(() -> Resumption.bringBack(process, lock, tree));
      }
    }
  }

  private Duration controlDeadline() {
    return process.context.timeouts().call();
  }

  private Duration transferDeadline() {
    return process.context.timeouts().transfer();
  }
}
