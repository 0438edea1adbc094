package dev.gpuprocess.internal.engine;

import dev.gpuprocess.cuda.CudaAnswer;
import dev.gpuprocess.cuda.CudaResult;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.NotCudaProcessException;
import dev.gpuprocess.error.OperationInProgressException;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.error.ProcessUnreadableException;
import dev.gpuprocess.error.StaleStateException;
import dev.gpuprocess.internal.call.BoundedCall;
import dev.gpuprocess.internal.call.StateReading;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.lock.ProcessLock;
import dev.gpuprocess.internal.proc.Standstill;
import dev.gpuprocess.process.ProcessIdentity;
import java.time.Duration;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One verb at work on one process: it makes sure that the process is where it should be, and gives
 * exceptions the state before and after and the time taken.
 */
public final class DriverOperation {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  private final TrackedProcess target;
  private final String name;
  private final @Nullable ProcessLock lock;
  private final long began = System.nanoTime();
  private final StateQuery states;
  private final DriverCalls calls;
  private @Nullable ProcessState before;

  /**
   * Creates a verb.
   *
   * @param lock null for one that only reads
   */
  public DriverOperation(TrackedProcess target, String name, @Nullable ProcessLock lock) {
    this.target = target;
    this.name = name;
    this.lock = lock;
    this.states = new StateQuery(target.context, () -> failure(null, null));
    this.calls = new DriverCalls(this, lock);
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
    reading.awaitCriu();
    ReachabilityCheck.require(target, name);
    return reading;
  }

  /**
   * Waits until CRIU does not work on the process, which it stops meanwhile.
   *
   * @throws OperationInProgressException when that takes too long
   */
  void awaitCriu() {
    states.awaitCriu(target.identity);
  }

  /**
   * Asks again where the driver says that a process has no CUDA state: who believes that forgets
   * the process, and nobody else would know of it.
   *
   * @param question asks for the state
   * @throws NotCudaProcessException when the driver says so twice
   */
  public static ProcessState askedTwice(Supplier<ProcessState> question) {
    try {
      return question.get();
    } catch (NotCudaProcessException e) {
      return question.get();
    }
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

  /** The verb. */
  String name() {
    return name;
  }

  /** The driver calls that move it. */
  public DriverCalls calls() {
    return calls;
  }

  /** Empty for one that only reads. */
  Optional<ProcessLock> lock() {
    return Optional.ofNullable(lock);
  }

  /** The state that it had when it was last looked at; null before that. */
  @Nullable ProcessState before() {
    return before;
  }

  /** The state that it had when it was last looked at; only after that. */
  ProcessState found() {
    return Objects.requireNonNull(before, "not looked at");
  }

  /**
   * Releases the lock, after bringing the process back if a close asked for that meanwhile. Does
   * nothing while an abandoned call is still out.
   */
  void releaseLock() {
    if (lock != null && !calls.isAbandoned()) {
      lock.release(calls::bringBack);
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

  /** Asks the driver for a state. A query that times out leaves nothing to undo. */
  private CudaAnswer<ProcessState> ask(ProcessIdentity process) {
    return lock != null && process.equals(target.identity)
        ? states.askLocked(process)
        : states.ask(process);
  }

  RuntimeException fail(String function, CudaResult result) {
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

  /** The state after a failure, without waiting for a driver that did not answer before. */
  @Nullable ProcessState stateIfAnswered() {
    return StateReading.isLeftBehind(target.context.cuda(), target.pid()) ? null : stateNow();
  }

  /**
   * The state after a failure; null where it cannot be read, since the failure itself matters more.
   */
  public @Nullable ProcessState stateNow() {
    if (calls.isAbandoned()) {
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
