package dev.gpuprocess.internal.engine;

import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.InsufficientGpuMemoryException;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.error.OperationCancelledException;
import dev.gpuprocess.error.OperationInProgressException;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.error.StaleStateException;
import dev.gpuprocess.internal.call.StateReading;
import dev.gpuprocess.internal.lock.ProcessLock;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.internal.process.Processes;
import dev.gpuprocess.internal.room.GpuMemoryRefusal;
import dev.gpuprocess.internal.text.Printable;
import dev.gpuprocess.internal.time.Durations;
import dev.gpuprocess.options.Cancellation;
import dev.gpuprocess.options.ResumeOptions;
import dev.gpuprocess.options.Timeouts;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * Waits until there is room on the GPUs for one restore. Where the caller does not hold the lock
 * meanwhile, others may work on the process, and the wait ends when they move it. For one thread.
 */
public final class RoomWait {

  private static final long FIRST_PAUSE = 50_000_000;
  private static final long LONGEST_PAUSE = 500_000_000;
  private static final int MOST_LOOKS_IN_VAIN = 3;

  private final TrackedProcess target;
  private final int generation;
  private final ResumeOptions options;
  private final long began = System.nanoTime();
  private final long end;
  private long pause = FIRST_PAUSE;
  private boolean waited;
  private int looksInVain;

  /** For one restore. The wait begins now. */
  public RoomWait(TrackedProcess target, ResumeOptions options) {
    this.target = target;
    this.generation = target.generation();
    this.options = options;
    this.end = Durations.end(options.waitForMemory());
  }

  /** Waits as long as the timeouts allow for closing a state object. */
  public static ResumeOptions asWhenClosing(Timeouts timeouts) {
    return ResumeOptions.builder().waitForMemory(timeouts.memory()).build();
  }

  /** What to do about a restore that found no room in time, for its message. */
  public static String advice(ResumeOptions options) {
    return options.waitForMemory().isZero()
        ? "free it or let resume wait for it, the process stays checkpointed"
        : "it did not come free within %s, the process stays checkpointed"
            .formatted(Printable.of(options.waitForMemory()));
  }

  /** Tries until there is room or the time is over. */
  public <T> T retrying(Supplier<T> attempt) {
    while (true) {
      try {
        return attempt.get();
      } catch (InsufficientGpuMemoryException | OperationInProgressException e) {
        orThrow(e);
      }
    }
  }

  /**
   * Waits until another attempt makes sense.
   *
   * @param refusal what the last attempt ended with; thrown when the time is over, and when it is
   *     no want of room
   */
  private void orThrow(GpuCheckpointException refusal) {
    boolean byDriver = refusal.failure().cudaResult() != null;
    boolean isBusy = !(refusal instanceof InsufficientGpuMemoryException) && !waited;
    if (byDriver || isBusy) {
      throw refusal;
    }
    waited = true;
    Thread thread = Thread.currentThread();
    Cancellation.Registration wake =
        options
            .cancellation()
            .map(cancellation -> cancellation.onCancel(() -> LockSupport.unpark(thread)))
            .orElse(() -> {});
    try (wake) {
      Optional<GpuMemoryRefusal> refused;
      do {
        pauseOrThrow(refusal);
        requireNotCancelled();
        requireStillCheckpointed();
        refused = target.gpuMemory(options).whyNot();
        countUnreadable(refused, refusal);
      } while (refused.isPresent());
    }
  }

  /**
   * Waiting does not mend a GPU that cannot be read, and each look at a hung one leaves a thread
   * behind.
   */
  private void countUnreadable(Optional<GpuMemoryRefusal> refused, GpuCheckpointException refusal) {
    boolean unreadable = refused.map(GpuMemoryRefusal::shortage).isEmpty() && refused.isPresent();
    looksInVain = unreadable ? looksInVain + 1 : 0;
    if (looksInVain == MOST_LOOKS_IN_VAIN) {
      throw refused
          .map(why -> why.exception(failure(ProcessState.CHECKPOINTED), "it stays checkpointed"))
          .map(GpuCheckpointException.class::cast)
          .orElse(refusal);
    }
  }

  private void pauseOrThrow(GpuCheckpointException refusal) {
    long left = Durations.left(end);
    if (left <= 0) {
      throw refusal;
    }
    if (Thread.currentThread().isInterrupted()) {
      throw new OperationCancelledException(
          "process %s waited for GPU memory and its thread was interrupted: it stays checkpointed"
              .formatted(target.pid()),
          failure(ProcessState.CHECKPOINTED));
    }
    requireNotCancelled();
    LockSupport.parkNanos(this, Math.min(pause, left));
    pause = Math.min(LONGEST_PAUSE, pause * 3 / 2);
  }

  /** Throws when the restore was cancelled. */
  public void requireNotCancelled() {
    if (options.cancellation().map(Cancellation::isCancelled).orElse(false)) {
      throw new OperationCancelledException(
          "the restore of process %s was cancelled: it stays checkpointed".formatted(target.pid()),
          failure(ProcessState.CHECKPOINTED));
    }
  }

  private void requireStillCheckpointed() {
    Optional<ProcStat> stat = Processes.stat(target.identity).filter(found -> !found.isDead());
    if (stat.isEmpty()) {
      target.forget();
      throw new NoSuchProcessException(
          "process %s ended while it waited for GPU memory".formatted(target.pid()), failure(null));
    }
    if (!target.isCurrent(generation)) {
      throw moved(null);
    }
    // A driver call on a stopped process would hang. The restore itself reports that it is stopped.
    if (!stat.get().isStopped()) {
      Optional<ProcessState> state = state();
      if (state.isPresent() && state.get() != ProcessState.CHECKPOINTED) {
        throw moved(state.get());
      }
    }
  }

  private Optional<ProcessState> state() {
    if (ProcessLock.holderAtCriu(target.key, target.context.state()).isPresent()) {
      return Optional.empty();
    }
    // The driver does not answer while somebody else moves the process's memory.
    Duration limit = target.context.timeouts().transfer();
    StateReading reading = StateReading.ask(target.context.cuda(), target.pid());
    try {
      return Optional.ofNullable(reading.await(limit).value());
    } catch (TimeoutException e) {
      reading.leave();
      throw new OperationTimedOutException(
          "the driver did not answer getState on process %s within %s while it waited for GPU memory: the process may be stopped or its GPU hung"
              .formatted(target.pid(), Printable.of(limit)),
          failure(null),
          e);
    }
  }

  private StaleStateException moved(@Nullable ProcessState to) {
    return new StaleStateException(
        "process %s was moved by something else while it waited for GPU memory; go on with GpuProcess.inspect(%s)"
            .formatted(target.pid(), target.pid()),
        failure(to));
  }

  private Failure failure(@Nullable ProcessState after) {
    return new Failure(
        "restore",
        target.pid(),
        ProcessState.CHECKPOINTED,
        after,
        Duration.ofNanos(System.nanoTime() - began),
        null,
        null);
  }
}
