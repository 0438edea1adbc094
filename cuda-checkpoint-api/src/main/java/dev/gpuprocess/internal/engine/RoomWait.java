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
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.linux.Processes;
import dev.gpuprocess.internal.lock.ProcessLock;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.internal.reservation.GpuMemoryRefusal;
import dev.gpuprocess.internal.text.Printable;
import dev.gpuprocess.internal.time.Durations;
import dev.gpuprocess.internal.time.Uninterrupted;
import dev.gpuprocess.options.Cancellation;
import dev.gpuprocess.options.ResumeOptions;
import dev.gpuprocess.options.Timeouts;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Waits until there is room on the GPUs for the restore of one or several processes. Where the
 * caller does not hold the lock meanwhile, others may work on the process, and the wait ends when
 * they move it. For one thread.
 */
public final class RoomWait {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");
  private static final long FIRST_PAUSE = 50_000_000;
  private static final long LONGEST_PAUSE = 500_000_000;
  private static final int MOST_LOOKS_IN_VAIN = 3;

  private final EngineContext context;
  private final String name;
  private final String inspection;
  private final int pid;
  private final BooleanSupplier isCurrent;
  private final ResumeOptions options;
  private final long began = System.nanoTime();
  private final long end;
  private long pause = FIRST_PAUSE;
  private boolean waited;
  private boolean looked;
  private int looksInVain;
  private int unanswered;
  private boolean endsWhenInterrupted = true;

  /** Those that are not known to have ended, or to be on a GPU already. */
  private List<TrackedProcess> waiting;

  private RoomWait(
      EngineContext context,
      String name,
      String inspection,
      int pid,
      List<TrackedProcess> members,
      BooleanSupplier isCurrent,
      ResumeOptions options) {
    this.context = context;
    this.name = name;
    this.inspection = inspection;
    this.pid = pid;
    this.waiting = members;
    this.isCurrent = isCurrent;
    this.options = options;
    this.end = Durations.end(options.waitForMemory());
  }

  /** For one restore of a process whose locks the caller does not hold. The wait begins now. */
  public RoomWait(TrackedTree job, ResumeOptions options) {
    this(job, job.generation(), options);
  }

  private RoomWait(TrackedTree job, int generation, ResumeOptions options) {
    this(
        job.context,
        job.name(),
        job.inspection(),
        job.root.pid(),
        job.members(),
        () -> job.isCurrent(generation),
        options);
  }

  /** For one restore of processes that nobody else moves meanwhile. The wait begins now. */
  static RoomWait ofLocked(List<TrackedProcess> members, ResumeOptions options) {
    TrackedProcess first = members.get(0);
    return new RoomWait(
            first.context,
            "process " + first.pid(),
            "GpuProcess.inspect(" + first.pid() + ")",
            first.pid(),
            members,
            () -> true,
            options)
        .despiteInterrupts();
  }

  /**
   * An interrupt does not end it, and the thread stays interrupted: for a way back that nobody
   * would take up again.
   */
  public RoomWait despiteInterrupts() {
    endsWhenInterrupted = false;
    return this;
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
    CountDownLatch cancelled = new CountDownLatch(1);
    Cancellation.Registration wake =
        options
            .cancellation()
            .map(cancellation -> cancellation.onCancel(cancelled::countDown))
            .orElse(() -> {});
    try (wake) {
      Optional<GpuMemoryRefusal> refused;
      do {
        pauseOrThrow(refusal, cancelled);
        requireNotCancelled();
        requireStillCheckpointed();
        refused = GpuRoom.check(context, waiting, options).whyNot();
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

  private void pauseOrThrow(GpuCheckpointException refusal, CountDownLatch cancelled) {
    long left = Durations.left(end);
    if (left <= 0) {
      throw refusal;
    }
    if (endsWhenInterrupted && Thread.currentThread().isInterrupted()) {
      throw new OperationCancelledException(
          "%s waited for GPU memory and its thread was interrupted: it stays checkpointed"
              .formatted(name),
          failure(ProcessState.CHECKPOINTED));
    }
    requireNotCancelled();
    pause(cancelled, Math.min(pause, left));
    pause = Math.min(LONGEST_PAUSE, pause * 3 / 2);
  }

  private void pause(CountDownLatch cancelled, long nanos) {
    if (!endsWhenInterrupted) {
      Uninterrupted.pause(nanos);
      return;
    }
    try {
      boolean unused = cancelled.await(nanos, TimeUnit.NANOSECONDS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  /** Throws when the restore was cancelled. */
  public void requireNotCancelled() {
    if (options.cancellation().map(Cancellation::isCancelled).orElse(false)) {
      throw new OperationCancelledException(
          "the restore of %s was cancelled: it stays checkpointed".formatted(name),
          failure(ProcessState.CHECKPOINTED));
    }
  }

  /** Those that have ended need no room. */
  private void requireStillCheckpointed() {
    List<TrackedProcess> there = new ArrayList<>();
    boolean isFirstLook = !looked;
    looked = true;
    for (TrackedProcess each : waiting) {
      Optional<ProcStat> stat = Processes.stat(each.identity).filter(found -> !found.isDead());
      if (stat.isEmpty()) {
        each.forget();
        continue;
      }
      // A driver call on a stopped process would hang. The restore itself reports that it is
      // stopped.
      Optional<ProcessState> state = stat.get().isStopped() ? Optional.empty() : state(each);
      if (state.isEmpty() || state.get() == ProcessState.CHECKPOINTED) {
        there.add(each);
      } else if (!isFirstLook || waiting.size() == 1) {
        throw moved(state.get());
      }
    }
    if (there.isEmpty()) {
      throw new NoSuchProcessException(
          name + " ended while it waited for GPU memory", failure(null));
    }
    if (!isCurrent.getAsBoolean()) {
      throw moved(null);
    }
    waiting = there;
  }

  private Optional<ProcessState> state(TrackedProcess target) {
    if (ProcessLock.holderAtCriu(target.key, context.state()).isPresent()) {
      return Optional.empty();
    }
    // The driver does not answer while somebody else moves the process's memory.
    Duration limit = context.timeouts().transfer();
    StateReading reading = StateReading.ask(context.cuda(), target.pid());
    try {
      Optional<ProcessState> state = Optional.ofNullable(reading.await(limit).value());
      unanswered = 0;
      return state;
    } catch (TimeoutException e) {
      reading.leave();
      unanswered++;
      if (unanswered < MOST_LOOKS_IN_VAIN) {
        LOG.debug("process {} is asked again later", target.pid(), e);
        return Optional.empty();
      }
      throw new OperationTimedOutException(
          "the driver did not answer getState on process %s within %s while it waited for GPU memory: the process may be stopped or its GPU hung"
              .formatted(target.pid(), Printable.of(limit)),
          failure(null),
          e);
    }
  }

  private StaleStateException moved(@Nullable ProcessState to) {
    return new StaleStateException(
        "%s was moved by something else while it waited for GPU memory; go on with %s"
            .formatted(name, inspection),
        failure(to));
  }

  private Failure failure(@Nullable ProcessState after) {
    return new Failure(
        "restore",
        pid,
        ProcessState.CHECKPOINTED,
        after,
        Duration.ofNanos(System.nanoTime() - began),
        null,
        null);
  }
}
