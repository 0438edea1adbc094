package dev.gpuprocess.internal.engine;

import dev.gpuprocess.cuda.CudaAnswer;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.FixAndRetryException;
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
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.internal.reservation.GpuMemoryCheck;
import dev.gpuprocess.internal.reservation.GpuMemoryCheck.Returning;
import dev.gpuprocess.internal.reservation.GpuMemoryRefusal;
import dev.gpuprocess.internal.state.GpuUsage;
import dev.gpuprocess.internal.state.ProcessLock;
import dev.gpuprocess.internal.text.Printable;
import dev.gpuprocess.internal.time.Deadline;
import dev.gpuprocess.internal.time.Durations;
import dev.gpuprocess.internal.time.Uninterrupted;
import dev.gpuprocess.options.Cancellation;
import dev.gpuprocess.options.ResumeOptions;
import dev.gpuprocess.options.Timeouts;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
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
 * Reserves the GPU memory that one or several processes need for a restore, and waits until there
 * is enough. If the caller does not hold their locks during the wait, other controllers may work on
 * the processes, and the wait ends when they move one. For one thread.
 */
public final class MemoryWait {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");
  private static final long FIRST_PAUSE = 50_000_000;
  private static final long LONGEST_PAUSE = 500_000_000;
  private static final int MOST_UNREADABLE = 3;

  /** The time after which a wait for the driver notices an interrupt or a cancellation. */
  private static final Duration SLICE = Duration.ofMillis(200);

  private final EngineContext context;
  private final String name;
  private final String inspection;
  private final int pid;
  private final BooleanSupplier isCurrent;
  private final ResumeOptions options;
  private final long began = System.nanoTime();
  private final Deadline deadline;
  private long pause = FIRST_PAUSE;
  private boolean waited;
  private boolean looked;
  private int unreadable;
  private int unanswered;
  private boolean endsWhenInterrupted = true;

  /** The processes that are not known to have exited, or to be on a GPU already. */
  private List<TrackedProcess> waiting;

  private MemoryWait(
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
    this.deadline = Deadline.after(Durations.min(options.waitForMemory(), options.deadline()));
  }

  /** Begins the wait for one restore of a process whose locks the caller does not hold. */
  public MemoryWait(TrackedTree tree, ResumeOptions options) {
    this(tree, tree.generation(), options);
  }

  private MemoryWait(TrackedTree tree, int generation, ResumeOptions options) {
    this(
        tree.context,
        tree.name(),
        tree.inspection(),
        tree.root.pid(),
        tree.members(),
        () -> tree.isCurrent(generation),
        options);
  }

  /** Begins the wait for one restore of processes whose locks the caller holds. */
  static MemoryWait ofLocked(List<TrackedProcess> members, ResumeOptions options) {
    TrackedProcess first = members.get(0);
    return new MemoryWait(
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
   * Does not let an interrupt end the wait; the thread stays interrupted. For a restore that no
   * caller would repeat.
   */
  public MemoryWait despiteInterrupts() {
    endsWhenInterrupted = false;
    return this;
  }

  /** Returns options that wait as long as the timeouts allow for closing a state object. */
  public static ResumeOptions asWhenClosing(Timeouts timeouts) {
    return ResumeOptions.builder().waitForMemory(timeouts.memory()).build();
  }

  /** Returns what to do about a restore for which memory was missing, for its message. */
  public static String advice(ResumeOptions options) {
    return options.waitForMemory().isZero()
        ? "free it or let resume wait for it, the process stays checkpointed"
        : "it did not come free within %s, the process stays checkpointed"
            .formatted(Printable.of(options.waitForMemory()));
  }

  /**
   * Reserves GPU memory for the restore of processes, or throws.
   *
   * @param failure the data for an exception
   * @param advice what the caller can do, for the message
   */
  static GpuMemoryCheck.Reserved reserve(
      List<TrackedProcess> processes,
      ResumeOptions options,
      Supplier<Failure> failure,
      String advice) {
    return check(processes.get(0).context, processes, options)
        .reserve(
            why -> why.exception(failure.get(), advice),
            why ->
                new FixAndRetryException(
                    FixAndRetryException.Reason.UNKNOWN_GPU,
                    "%s; process %s stays checkpointed".formatted(why, failure.get().pid()),
                    failure.get()));
  }

  private static GpuMemoryCheck check(
      EngineContext context, List<TrackedProcess> processes, ResumeOptions options) {
    List<Returning> returning = new ArrayList<>();
    for (TrackedProcess each : processes) {
      returning.add(
          new Returning(
              each.identity, needs(each, options, returning.isEmpty()), each.gpusOfCheckpoint()));
    }
    return new GpuMemoryCheck(context, returning, options.gpus());
  }

  /** The needs that the user states are those of all processes together, and count once. */
  private static GpuUsage needs(TrackedProcess process, ResumeOptions options, boolean isFirst) {
    Optional<GpuUsage> stated = options.needs().map(GpuUsage::stated);
    return isFirst || stated.isEmpty() ? stated.orElse(process.held()) : GpuUsage.stated(Map.of());
  }

  /** Tries until there is enough memory or the time is over. */
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
   * @param refusal the failure of the last attempt; thrown when the time is over, and when it is
   *     not about missing memory
   */
  private void orThrow(GpuCheckpointException refusal) {
    boolean byDriver = refusal.failure().cudaResult() != null;
    // A refusal without a pid is about the reservations: no other verb works on the process.
    boolean isBusy =
        !(refusal instanceof InsufficientGpuMemoryException)
            && refusal.failure().pid() != 0
            && !waited;
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
        refused = check(context, waiting, options).whyNot();
        countUnreadable(refused, refusal);
      } while (refused.isPresent());
    }
  }

  /**
   * Throws when the GPUs cannot be read repeatedly: waiting does not repair them, and each attempt
   * to read a hung GPU leaves a thread behind.
   */
  private void countUnreadable(Optional<GpuMemoryRefusal> refused, GpuCheckpointException refusal) {
    boolean isUnreadable = refused.map(GpuMemoryRefusal::shortage).isEmpty() && refused.isPresent();
    unreadable = isUnreadable ? unreadable + 1 : 0;
    if (unreadable == MOST_UNREADABLE) {
      throw refused
          .map(why -> why.exception(failure(ProcessState.CHECKPOINTED), "it stays checkpointed"))
          .map(GpuCheckpointException.class::cast)
          .orElse(refusal);
    }
  }

  private void pauseOrThrow(GpuCheckpointException refusal, CountDownLatch cancelled) {
    long left = deadline.nanos();
    if (left == 0) {
      throw refusal;
    }
    requireNotInterrupted();
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

  private void requireNotInterrupted() {
    if (isInterrupted()) {
      throw new OperationCancelledException(
          "%s waited for GPU memory and its thread was interrupted: it stays checkpointed"
              .formatted(name),
          failure(ProcessState.CHECKPOINTED));
    }
  }

  private boolean isInterrupted() {
    return endsWhenInterrupted && Thread.currentThread().isInterrupted();
  }

  private boolean isCancelled() {
    return options.cancellation().map(Cancellation::isCancelled).orElse(false);
  }

  /** Throws when the restore was cancelled. */
  public void requireNotCancelled() {
    if (isCancelled()) {
      throw new OperationCancelledException(
          "the restore of %s was cancelled: it stays checkpointed".formatted(name),
          failure(ProcessState.CHECKPOINTED));
    }
  }

  /** Checks that all processes are checkpointed. Processes that have exited need no memory. */
  private void requireStillCheckpointed() {
    List<TrackedProcess> there = new ArrayList<>();
    ProcessState elsewhere = null;
    boolean isFirst = !looked;
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
      } else if (!isFirst || waiting.size() == 1) {
        throw moved(state.get());
      } else {
        elsewhere = state.get();
      }
    }
    if (there.isEmpty() && elsewhere != null) {
      throw moved(elsewhere);
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

  private Optional<ProcessState> state(TrackedProcess process) {
    if (ProcessLock.holderAtCriu(process.key, context.state()).isPresent()) {
      return Optional.empty();
    }
    // The driver does not answer while another verb moves the process's memory.
    Duration limit = context.timeouts().transfer();
    StateReading reading = StateReading.ask(context.cuda(), process.pid());
    try {
      awaitUnlessEnded(reading, Deadline.after(Durations.min(limit, deadline.remaining())));
      Optional<ProcessState> state = Optional.ofNullable(reading.await(Duration.ZERO).value());
      unanswered = 0;
      return state;
    } catch (TimeoutException e) {
      requireNotInterrupted();
      requireNotCancelled();
      if (deadline.passed()) {
        return Optional.empty();
      }
      unanswered++;
      if (unanswered < MOST_UNREADABLE) {
        LOG.debug("the state of process {} is read again later", process.pid(), e);
        return Optional.empty();
      }
      throw new OperationTimedOutException(
          "the driver did not answer getState on process %s within %s while it waited for GPU memory: the process may be stopped or its GPU hung"
              .formatted(process.pid(), Printable.of(limit)),
          failure(null),
          e);
    }
  }

  /** Waits for an answer until the deadline, an interrupt or a cancellation. */
  private void awaitUnlessEnded(StateReading reading, Deadline end) {
    boolean answered;
    do {
      answered = isAnswered(reading);
    } while (!answered && !end.passed() && !isInterrupted() && !isCancelled());
  }

  private static boolean isAnswered(StateReading reading) {
    try {
      CudaAnswer<ProcessState> unused = reading.awaitFirst(SLICE);
      return true;
    } catch (TimeoutException notYet) {
      return false;
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
