package dev.gpuprocess.slot;

import dev.gpuprocess.GpuProcess;
import dev.gpuprocess.ImageStore;
import dev.gpuprocess.PoisonedProcessException;
import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.error.NotCudaProcessException;
import dev.gpuprocess.error.OperationCancelledException;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.error.RetryLaterException;
import dev.gpuprocess.error.StaleStateException;
import dev.gpuprocess.internal.linux.ProcessKey;
import dev.gpuprocess.internal.proc.Unreadable;
import dev.gpuprocess.internal.state.StateDirectory;
import dev.gpuprocess.internal.state.StateDirectoryException;
import dev.gpuprocess.internal.text.Printable;
import dev.gpuprocess.internal.time.Deadline;
import dev.gpuprocess.internal.time.Uninterrupted;
import dev.gpuprocess.options.Cancellation;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.slot.SlotEvent.Kind;
import dev.gpuprocess.slot.SlotProcess.Place;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The calls and threads of an open slot. One thread decides what is due; each swap and each dump
 * has a thread of its own ({@link SlotSwap}, {@link SlotDump}). The fields are guarded by the lock
 * of the {@link SlotState}. Safe for use by several threads.
 */
final class SlotController {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  /** The interval at which a waiting caller checks its cancellation. */
  private static final long LOOK_NANOS = 20_000_000;

  private static final long NO_TURN = 0;

  /** The time between two checks of a process whose root has exited. */
  private static final Duration NEXT_CHECK = Duration.ofMillis(200);

  private final GpuSlot.Builder set;
  private final SlotMoves moves;
  private final SlotState state;
  private final SlotQueue queue;
  private final Map<QueuedProcess, Cancellation> swaps = new HashMap<>();
  private final Map<QueuedProcess, Integer> callers = new HashMap<>();

  /**
   * The processes whose root has exited and that have not ended, with the time of the next check.
   */
  private final Map<QueuedProcess, Deadline> checked = new HashMap<>();

  private final Cancellation closing = new Cancellation();
  private final ExecutorService workers;
  private boolean closed;
  private boolean dumping;
  private int underWay;

  private SlotController(GpuSlot.Builder set, SlotState state) {
    this.set = set;
    this.moves = new SlotMoves(set.checkpoints);
    this.state = state;
    this.queue = state.queue();
    this.workers = Executors.newCachedThreadPool(work -> set.thread(work, "gpuprocess slot swap"));
  }

  /** Opens the slot, mends what its last controller left, and starts the threads. */
  static SlotController open(GpuSlot.Builder set) {
    SlotRecord record =
        SlotRecord.open(new StateDirectory(set.checkpoints.stateDirectory()), set.name);
    SlotState state;
    try {
      state = new SlotState(set, record);
    } catch (RuntimeException | Error e) {
      record.close();
      throw e;
    }
    SlotController slot = new SlotController(set, state);
    try {
      slot.workers.execute(slot::run);
      slot.workers.execute(state::removeObsolete);
    } catch (OutOfMemoryError e) {
      slot.close(); // the machine allows no more threads
      throw e;
    }
    return slot;
  }

  RunningProcess acquire(long pid, int priority, Duration limit, Cancellation cancellation) {
    Deadline deadline = Deadline.after(limit);
    QueuedProcess process = enter(pid, priority, 1);
    try {
      return await(process, deadline, limit, cancellation);
    } finally {
      state.change(() -> callers.compute(process, (same, count) -> oneLess(count)));
    }
  }

  private static @Nullable Integer oneLess(@Nullable Integer count) {
    return count == null || count <= 1 ? null : count - 1;
  }

  void enqueue(long pid, int priority) {
    QueuedProcess entered = enter(pid, priority, 0);
    LOG.debug("process {} is in slot {}", entered.pid(), set.name);
  }

  private QueuedProcess enter(long pid, int priority, int waiting) {
    while (true) {
      boolean isKnown = state.locked(() -> find(pid).isPresent());
      GpuProcess found = isKnown ? null : moves.look(pid);
      Optional<GpuCheckpointException> obstacle = dumpObstacle(found);
      Optional<QueuedProcess> entered =
          state.locked(
              () -> {
                requireOpen(pid);
                Optional<QueuedProcess> process =
                    find(pid).or(() -> Optional.ofNullable(found).map(SlotController::created));
                process.ifPresent(each -> enter(each, priority, waiting, obstacle));
                return process;
              });
      if (entered.isPresent()) {
        return entered.get();
      }
      LOG.debug("process {} has just left slot {}, and is entered again", pid, set.name);
    }
  }

  /** Returns why a process could not go to disk, before that is urgent. */
  private Optional<GpuCheckpointException> dumpObstacle(@Nullable GpuProcess found) {
    ImageStore store = set.store;
    if (store == null || !(found instanceof RunningProcess running)) {
      return Optional.empty();
    }
    try {
      running.checkDump(store.directory().resolve("image"), DumpOptions.ofDefaults());
      return Optional.empty();
    } catch (RetryLaterException | NoSuchProcessException | StaleStateException e) {
      LOG.debug("whether process {} can be dumped is not known", running.pid(), e);
      return Optional.empty();
    } catch (GpuCheckpointException e) {
      LOG.warn("process {} could not be dumped now: {}", running.pid(), e.getMessage());
      return Optional.of(e);
    }
  }

  private void enter(
      QueuedProcess process, int priority, int waiting, Optional<GpuCheckpointException> obstacle) {
    boolean isNew = !queue.contains(process);
    boolean wanted = process.isWanted();
    process.request(priority, queue.ticket(), System.nanoTime());
    if (isNew) {
      state.enter(process);
    } else {
      state.trySave();
    }
    if (!wanted) {
      state.tell(Kind.QUEUED, process);
    }
    if (isNew) {
      obstacle.ifPresent(why -> state.undumpable(process, why));
    }
    if (waiting > 0) {
      callers.merge(process, waiting, Integer::sum);
    }
    state.signal();
  }

  private static QueuedProcess created(GpuProcess found) {
    QueuedProcess process =
        new QueuedProcess(
            found.identity(),
            ProcessKey.of(found.identity()),
            SlotMoves.place(found),
            Duration.ZERO);
    SlotState.setUsage(process, found);
    return process;
  }

  private Optional<QueuedProcess> find(long pid) {
    return queue.find(pid, ProcessIdentity.of(pid));
  }

  private NoSuchProcessException ended(long pid) {
    return new NoSuchProcessException(
        "process %s has ended, and is no longer in slot %s".formatted(Long.toString(pid), set.name),
        Failure.of("acquire", pid));
  }

  private void requireOpen(long pid) {
    if (closed) {
      throw new OperationCancelledException(
          "slot %s was closed before process %s had its turn: open it again, which continues with its queue"
              .formatted(set.name, Long.toString(pid)),
          Failure.of("acquire", pid));
    }
  }

  private RunningProcess await(
      QueuedProcess process, Deadline deadline, Duration limit, Cancellation cancellation) {
    while (true) {
      boolean isCancelled = Thread.currentThread().isInterrupted() || cancellation.isCancelled();
      long turn = state.locked(() -> awaitBriefly(process, deadline, isCancelled, limit));
      if (turn == NO_TURN) {
        continue;
      }
      // Only the object of the swap is known to be the newest.
      RunningProcess resumed = state.takeRunning(process);
      if (resumed != null) {
        return resumed;
      }
      GpuProcess found = moves.look(process.process());
      if (found instanceof RunningProcess now) {
        return now;
      }
      // Its turn has ended since, or another controller has suspended it: it waits for the next.
      Place place = SlotMoves.place(found);
      LOG.debug("process {} is in {} although it had its turn", process.pid(), place);
      state.change(() -> requeue(process, turn));
    }
  }

  private void requeue(QueuedProcess process, long turn) {
    if (process.hasTurn() && process.turn() == turn && !process.isBusy()) {
      state.unknown(process);
      state.signal();
    }
  }

  /** Returns the turn of a process that has begun; {@link #NO_TURN} if it has not yet. */
  private long awaitBriefly(
      QueuedProcess process, Deadline deadline, boolean isCancelled, Duration limit) {
    if (hasTurn(process)) {
      return process.turn();
    }
    long left = deadline.nanos();
    if (isCancelled || left == 0 || !process.isWanted()) {
      throw withdrawn(process, left > 0, limit);
    }
    try {
      state.await(Math.min(left, LOOK_NANOS));
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
    return NO_TURN;
  }

  /** Returns whether the turn of a process has begun; throws if it never will. */
  private boolean hasTurn(QueuedProcess process) {
    if (!queue.contains(process)) {
      if (process.failure() instanceof PoisonedProcessException e) {
        throw e;
      }
      throw ended(process.pid());
    }
    requireOpen(process.pid());
    return process.hasTurn() && !process.isBusy();
  }

  private GpuCheckpointException withdrawn(
      QueuedProcess process, boolean isCancelled, Duration deadline) {
    if (process.isWanted() && callers.getOrDefault(process, 0) <= 1) {
      process.giveUp();
      Optional.ofNullable(swaps.get(process)).ifPresent(Cancellation::cancel);
      state.tell(Kind.RELEASED, process);
      state.trySave();
      state.signal();
    }
    Failure failure = Failure.of("acquire", process.pid());
    String text = "process %s did not get its turn in slot %s %s: it no longer waits";
    GpuCheckpointException e =
        isCancelled
            ? new OperationCancelledException(
                text.formatted(
                    process.pid(), set.name, "before that was cancelled or it was released"),
                failure)
            : new OperationTimedOutException(
                text.formatted(process.pid(), set.name, "within " + Printable.of(deadline)),
                failure);
    Optional.ofNullable(process.failure()).ifPresent(e::addSuppressed);
    return e;
  }

  void release(long pid) {
    state.change(
        () ->
            find(pid)
                .filter(process -> process.isWanted() && !closed)
                .ifPresent(
                    process -> {
                      process.giveUp();
                      state.tell(Kind.RELEASED, process);
                      state.trySave();
                      state.signal();
                    }));
  }

  SlotProcess remove(long pid) {
    Deadline deadline = Deadline.after(set.checkpoints.timeouts().transfer());
    return state.locked(() -> remove(pid, deadline));
  }

  private SlotProcess remove(long pid, Deadline deadline) {
    requireOpen(pid);
    Failure failure = Failure.of("remove", pid);
    QueuedProcess process =
        find(pid)
            .orElseThrow(
                () ->
                    new NoSuchProcessException(
                        "process %s is not in slot %s".formatted(Long.toString(pid), set.name),
                        failure));
    boolean wanted = process.isWanted();
    process.giveUp();
    if (!state.awaitUntil(deadline, () -> !process.isBusy())) {
      wantAgain(process, wanted);
      throw new OperationTimedOutException(
          "process %s is still being moved by slot %s: remove it again when that has ended"
              .formatted(Long.toString(pid), set.name),
          failure);
    }
    SlotProcess left = process.report(System.nanoTime());
    if (queue.contains(process)) {
      try {
        state.remove(process);
      } catch (StateDirectoryException e) {
        wantAgain(process, wanted);
        throw e;
      }
    }
    return left;
  }

  private static void wantAgain(QueuedProcess process, boolean wanted) {
    if (wanted) {
      process.request(process.priority(), process.ticket(), System.nanoTime());
    }
  }

  List<SlotProcess> processes() {
    return state.locked(
        () -> {
          long now = System.nanoTime();
          return queue.inOrder().stream().map(each -> each.report(now)).toList();
        });
  }

  void close() {
    boolean first =
        state.locked(
            () -> {
              boolean wasOpen = !closed;
              closed = true;
              state.signal();
              return wasOpen;
            });
    if (!first) {
      return;
    }
    closing.cancel();
    state.locked(() -> List.copyOf(swaps.values())).forEach(Cancellation::cancel);
    Deadline deadline = Deadline.after(set.checkpoints.timeouts().transfer());
    boolean ended = state.awaitUntil(deadline, () -> underWay == 0);
    workers.shutdown();
    if (ended) {
      state.close();
    } else {
      LOG.warn("slot {} stays locked until this JVM ends: a swap does not end", set.name);
      state.closeNews();
    }
  }

  private void run() {
    while (state.locked(() -> !closed)) {
      try {
        state.locked(this::decide).forEach(this::start);
      } catch (RuntimeException | Error e) {
        LOG.warn("slot {} goes on", set.name, e);
        Uninterrupted.pause(LOOK_NANOS);
      }
    }
  }

  /**
   * Work of its own thread.
   *
   * @param end called under the lock after it, or if no thread can be started
   */
  private record Work(Runnable run, Runnable end) {}

  private void start(Work work) {
    try {
      workers.execute(() -> ending(work.run(), work.end()));
    } catch (OutOfMemoryError e) {
      LOG.warn("slot {} cannot start a thread for a swap, and tries again", set.name, e);
      ending(() -> Uninterrupted.pause(LOOK_NANOS), work.end());
    }
  }

  /** Returns what is due now; waits for a change if nothing is. */
  private List<Work> decide() {
    List<Work> due = closed ? List.of() : due();
    if (due.isEmpty() && !closed) {
      try {
        state.await(queue.pause(System.nanoTime()));
      } catch (InterruptedException e) {
        LOG.debug("slot {} was interrupted, which changes nothing", set.name, e);
      }
    }
    return due;
  }

  private List<Work> due() {
    checkEnded();
    long now = System.nanoTime();
    List<QueuedProcess> before = withTurn();
    List<SlotQueue.Swap> swapsDue = queue.due(now);
    withTurn().stream()
        .filter(each -> !before.contains(each))
        .forEach(each -> state.tell(Kind.STARTED, each));
    List<Work> due = new ArrayList<>();
    for (SlotQueue.Swap swap : swapsDue) {
      Cancellation by = new Cancellation();
      Optional.ofNullable(swap.in()).ifPresent(in -> swaps.put(in, by));
      queue.begin(swap);
      underWay++;
      due.add(new Work(() -> new SlotSwap(state, moves, swap, by).run(), () -> end(swap)));
    }
    ImageStore store = set.store;
    if (store != null && !dumping) {
      queue
          .overBudget(set.hostMemory, now)
          .ifPresent(
              process -> {
                process.setBusy(true);
                dumping = true;
                underWay++;
                due.add(
                    new Work(
                        () -> new SlotDump(state, moves, store, process, closing).run(),
                        () -> endDump(process)));
              });
    }
    if (!due.isEmpty() || withTurn().size() != before.size()) {
      state.signal();
    }
    return due;
  }

  private List<QueuedProcess> withTurn() {
    return queue.inOrder().stream().filter(QueuedProcess::hasTurn).toList();
  }

  private void endDump(QueuedProcess process) {
    process.setBusy(false);
    dumping = false;
  }

  /** No swap waits for the removal of images. */
  private void ending(Runnable work, Runnable end) {
    try {
      try {
        work.run();
      } finally {
        state.change(
            () -> {
              end.run();
              state.trySave();
              state.signal();
            });
      }
      state.removeObsolete();
    } catch (RuntimeException | Error e) {
      LOG.warn("slot {} goes on", set.name, e);
    } finally {
      state.change(
          () -> {
            underWay--;
            state.signal();
          });
    }
  }

  private void end(SlotQueue.Swap swap) {
    queue.end(swap);
    Optional.ofNullable(swap.in()).ifPresent(swaps::remove);
  }

  /** Has the processes checked whose root has exited; under the lock. */
  private void checkEnded() {
    for (QueuedProcess each : queue.inOrder()) {
      Deadline next = checked.get(each);
      if (each.place() != Place.DISK
          && !each.isBusy()
          && (next == null || next.passed())
          && !Unreadable.as(true, each.process()::isAlive)) {
        each.setBusy(true);
        try {
          workers.execute(() -> check(each));
        } catch (OutOfMemoryError e) {
          LOG.warn("slot {} cannot start a thread for a check, and tries again", set.name, e);
          each.setBusy(false);
        }
      }
    }
  }

  /** Takes a process out of the queue if it has ended. Reads driver and disk without the lock. */
  private void check(QueuedProcess process) {
    boolean isOver = false;
    boolean isInImage = false;
    try {
      isOver = hasEnded(process);
      Path image = process.image();
      isInImage = isOver && image != null && moves.mayHold(image);
    } catch (RuntimeException | Error e) {
      LOG.warn("whether process {} has ended is not known", process.pid(), e);
      isOver = false;
    } finally {
      boolean gone = isOver;
      boolean kept = isInImage;
      state.change(() -> checked(process, gone, kept));
    }
  }

  private void checked(QueuedProcess process, boolean isOver, boolean isInImage) {
    process.setBusy(false);
    if (closed) {
      return; // the record may be that of another controller
    }
    checked.remove(process);
    if (!isOver) {
      checked.put(process, Deadline.after(NEXT_CHECK));
    } else if (isInImage) {
      // A dump whose end was not known has ended it.
      state.dumped(process, Duration.ZERO);
    } else {
      state.leave(process, Kind.ENDED);
    }
    state.signal();
  }

  private boolean hasEnded(QueuedProcess process) {
    try {
      // Its members can be suspended after its root has exited.
      GpuProcess members = moves.look(process.process());
      return members.members().isEmpty();
    } catch (NoSuchProcessException | NotCudaProcessException e) {
      return true;
    } catch (GpuCheckpointException e) {
      LOG.debug("whether process {} has ended is not known", process.pid(), e);
      return false;
    }
  }
}
