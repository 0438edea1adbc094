package dev.gpuprocess;

import dev.gpuprocess.cuda.GpuUuid;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.error.NotCudaProcessException;
import dev.gpuprocess.error.OperationCancelledException;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.error.StateDirectoryException;
import dev.gpuprocess.internal.linux.ProcessKey;
import dev.gpuprocess.internal.slot.QueuedProcess;
import dev.gpuprocess.internal.slot.SlotQueue;
import dev.gpuprocess.internal.slot.SlotRecord;
import dev.gpuprocess.internal.text.Printable;
import dev.gpuprocess.internal.time.Durations;
import dev.gpuprocess.internal.time.Uninterrupted;
import dev.gpuprocess.options.Cancellation;
import dev.gpuprocess.options.TurnOptions;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.report.SlotEvent;
import dev.gpuprocess.report.SlotEvent.Kind;
import dev.gpuprocess.report.SlotProcess;
import dev.gpuprocess.report.SlotProcess.Place;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The threads of an open slot, and the lock that guards its queue and record. One thread decides
 * what is due; each swap and each dump has a thread of its own ({@link SlotSwap}, {@link
 * SlotDump}); another one notifies the listener. No verb runs while the lock is held. Safe for use
 * by several threads.
 */
final class SlotController {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  /** The interval at which a waiting caller checks its cancellation. */
  private static final long LOOK_NANOS = 20_000_000;

  private final GpuSlot.Builder set;
  private final SlotMoves moves;
  private final SlotRecord record;
  private final SlotQueue queue;
  private final List<Path> obsolete;
  private final Map<QueuedProcess, RunningProcess> running = new HashMap<>();
  private final Map<QueuedProcess, Cancellation> swaps = new HashMap<>();
  private final Map<QueuedProcess, Integer> callers = new HashMap<>();
  private final ReentrantLock lock = new ReentrantLock();
  private final Condition changed = lock.newCondition();
  private final Cancellation closing = new Cancellation();
  private final ExecutorService workers;
  private final ExecutorService news;
  private boolean isRecorded = true;
  private boolean closed;
  private int underWay;

  private SlotController(GpuSlot.Builder set, SlotRecord record) {
    this.set = set;
    this.moves = new SlotMoves(set.checkpoints);
    this.record = record;
    this.queue = new SlotQueue(Durations.nanos(set.quantum));
    SlotOpening opening = new SlotOpening(set.checkpoints, record.read());
    opening.fill(queue);
    this.obsolete = new ArrayList<>(opening.obsolete());
    this.workers = Executors.newCachedThreadPool(work -> thread(work, "gpuprocess slot swap"));
    this.news =
        new ThreadPoolExecutor(
            1,
            1,
            0,
            TimeUnit.SECONDS,
            new LinkedBlockingQueue<>(),
            work -> thread(work, "gpuprocess slot news"),
            new ThreadPoolExecutor.DiscardPolicy());
    record.write(content());
    opening.ended().forEach(each -> tell(Kind.ENDED, new Subject(each, Set.of()), null));
  }

  private void start() {
    workers.execute(this::run);
    workers.execute(this::removeObsolete);
  }

  /** Opens the slot, mends what its last controller left, and starts the threads. */
  static SlotController open(GpuSlot.Builder set) {
    SlotRecord record = SlotRecord.open(set.checkpoints.context().state(), set.name);
    try {
      SlotController slot = new SlotController(set, record);
      slot.start();
      return slot;
    } catch (RuntimeException | Error e) {
      record.close();
      throw e;
    }
  }

  private Thread thread(Runnable work, String name) {
    Thread thread = new Thread(work, name + " " + set.name);
    thread.setDaemon(true);
    return thread;
  }

  /** The process of an event, with the GPUs that it takes. */
  private record Subject(ProcessIdentity process, Set<GpuUuid> gpus) {
    static Subject of(QueuedProcess process) {
      return new Subject(process.process(), process.gpus());
    }
  }

  // ---------------------------------------------------------------- calls

  RunningProcess acquire(long pid, TurnOptions options) {
    long end = Durations.end(options.deadline());
    QueuedProcess process = enter(pid, options.priority(), 1);
    try {
      return await(process, end, options);
    } finally {
      locked(() -> callers.merge(process, -1, Integer::sum));
    }
  }

  void enqueue(long pid, int priority) {
    QueuedProcess entered = enter(pid, priority, 0);
    LOG.debug("process {} is in slot {}", entered.pid(), set.name);
  }

  private QueuedProcess enter(long pid, int priority, int waiting) {
    Optional<QueuedProcess> known = locked(() -> find(pid));
    GpuProcess found = known.isPresent() ? null : moves.look(pid);
    return locked(
        () -> {
          requireOpen(pid);
          QueuedProcess process = find(pid).orElseGet(() -> created(found, pid));
          boolean isNew = !queue.contains(process);
          boolean wanted = process.isWanted();
          process.request(priority, queue.ticket(), System.nanoTime());
          if (isNew) {
            queue.add(process);
            try {
              save();
            } catch (StateDirectoryException e) {
              queue.remove(process);
              throw e;
            }
          } else {
            trySave();
          }
          if (!wanted) {
            tell(Kind.QUEUED, Subject.of(process), null);
          }
          callers.merge(process, waiting, Integer::sum);
          changed.signalAll();
          return process;
        });
  }

  private QueuedProcess created(@Nullable GpuProcess found, long pid) {
    if (found == null) {
      throw ended(pid);
    }
    QueuedProcess process =
        new QueuedProcess(
            found.identity(),
            ProcessKey.of(found.identity()),
            SlotMoves.place(found),
            Duration.ZERO);
    setUsage(process, found);
    if (found instanceof RunningProcess runs) {
      running.put(process, runs);
    }
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

  private RunningProcess await(QueuedProcess process, long end, TurnOptions options) {
    while (true) {
      boolean isCancelled = options.cancellation().map(Cancellation::isCancelled).orElse(false);
      lock.lock();
      try {
        if (hasTurn(process)) {
          break;
        }
        long left = Durations.left(end);
        if (isCancelled || left <= 0) {
          throw withdrawn(process, isCancelled, options.deadline());
        }
        long unused = changed.awaitNanos(Math.min(left, LOOK_NANOS));
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
        throw withdrawn(process, true, options.deadline());
      } finally {
        lock.unlock();
      }
    }
    // Only the object of the swap is known to be the newest.
    RunningProcess resumed = locked(() -> running.remove(process));
    return resumed == null ? moves.resume(process.process(), closing) : resumed;
  }

  /** Returns whether the turn of a process has begun; throws if it never will. */
  private boolean hasTurn(QueuedProcess process) {
    if (!queue.contains(process)) {
      if (process.failure() instanceof GpuCheckpointException e) {
        throw e;
      }
      throw ended(process.pid());
    }
    requireOpen(process.pid());
    return process.hasTurn() && !process.isBusy();
  }

  private GpuCheckpointException withdrawn(
      QueuedProcess process, boolean isCancelled, Duration deadline) {
    if (callers.getOrDefault(process, 0) <= 1) {
      process.giveUp();
      Optional.ofNullable(swaps.get(process)).ifPresent(Cancellation::cancel);
      tell(Kind.RELEASED, Subject.of(process), null);
      trySave();
      changed.signalAll();
    }
    Failure failure = Failure.of("acquire", process.pid());
    String text = "process %s did not get its turn in slot %s %s: it no longer waits";
    GpuCheckpointException e =
        isCancelled
            ? new OperationCancelledException(
                text.formatted(process.pid(), set.name, "before that was cancelled"), failure)
            : new OperationTimedOutException(
                text.formatted(process.pid(), set.name, "within " + Printable.of(deadline)),
                failure);
    Optional.ofNullable(process.failure()).ifPresent(e::addSuppressed);
    return e;
  }

  void release(long pid) {
    locked(
        () -> {
          Optional<QueuedProcess> wanted = find(pid).filter(QueuedProcess::isWanted);
          wanted.ifPresent(
              process -> {
                process.giveUp();
                tell(Kind.RELEASED, Subject.of(process), null);
                trySave();
                changed.signalAll();
              });
          return wanted.isPresent();
        });
  }

  SlotProcess remove(long pid) {
    long end = Durations.end(set.checkpoints.context().timeouts().transfer());
    lock.lock();
    try {
      QueuedProcess process =
          find(pid)
              .orElseThrow(
                  () ->
                      new NoSuchProcessException(
                          "process %s is not in slot %s".formatted(Long.toString(pid), set.name),
                          Failure.of("remove", pid)));
      process.giveUp();
      boolean idle = awaitUnlessBusy(process, end);
      if (!idle) {
        throw new OperationTimedOutException(
            "process %s is still being moved by slot %s: remove it again when that has ended"
                .formatted(Long.toString(pid), set.name),
            Failure.of("remove", pid));
      }
      SlotProcess left = process.report(System.nanoTime());
      if (queue.contains(process)) {
        leave(process, Kind.REMOVED);
      }
      return left;
    } finally {
      lock.unlock();
    }
  }

  private boolean awaitUnlessBusy(QueuedProcess process, long end) {
    return Uninterrupted.until(
        end,
        left -> {
          for (long rest = left; rest > 0 && process.isBusy(); ) {
            rest = changed.awaitNanos(rest);
          }
          return !process.isBusy();
        });
  }

  List<SlotProcess> processes() {
    return locked(
        () -> {
          long now = System.nanoTime();
          return queue.inOrder().stream().map(each -> each.report(now)).toList();
        });
  }

  void close() {
    boolean first =
        locked(
            () -> {
              boolean wasOpen = !closed;
              closed = true;
              changed.signalAll();
              return wasOpen;
            });
    if (!first) {
      return;
    }
    closing.cancel();
    locked(() -> List.copyOf(swaps.values())).forEach(Cancellation::cancel);
    boolean ended = awaitWorkers();
    workers.shutdown();
    news.shutdown();
    if (ended) {
      locked(
          () -> {
            trySave();
            return closed;
          });
      record.close();
    } else {
      LOG.warn("slot {} stays locked until this JVM ends: a swap does not end", set.name);
    }
    boolean unused =
        Uninterrupted.until(
            Durations.end(set.checkpoints.context().timeouts().call()),
            left -> news.awaitTermination(left, TimeUnit.NANOSECONDS));
  }

  private boolean awaitWorkers() {
    long end = Durations.end(set.checkpoints.context().timeouts().transfer());
    lock.lock();
    try {
      return Uninterrupted.until(
          end,
          left -> {
            for (long rest = left; rest > 0 && underWay > 0; ) {
              rest = changed.awaitNanos(rest);
            }
            return underWay == 0;
          });
    } finally {
      lock.unlock();
    }
  }

  // ---------------------------------------------------------------- decisions

  private void run() {
    while (true) {
      List<Runnable> due = new ArrayList<>();
      lock.lock();
      try {
        if (closed) {
          return;
        }
        due.addAll(due());
        if (due.isEmpty()) {
          long unused = changed.awaitNanos(queue.pause(System.nanoTime()));
        }
      } catch (InterruptedException | RuntimeException | Error e) {
        LOG.warn("slot {} goes on", set.name, e);
        Uninterrupted.pause(LOOK_NANOS);
      } finally {
        lock.unlock();
      }
      due.forEach(workers::execute);
    }
  }

  private List<Runnable> due() {
    removeEnded();
    long now = System.nanoTime();
    List<QueuedProcess> before = withTurn();
    List<SlotQueue.Swap> swapsDue = queue.due(now);
    withTurn().stream()
        .filter(each -> !before.contains(each))
        .forEach(each -> tell(Kind.STARTED, Subject.of(each), null));
    List<Runnable> due = new ArrayList<>();
    for (SlotQueue.Swap swap : swapsDue) {
      Cancellation by = new Cancellation();
      Optional.ofNullable(swap.in()).ifPresent(in -> swaps.put(in, by));
      queue.begin(swap);
      underWay++;
      due.add(() -> ending(() -> new SlotSwap(this, moves, swap, by).run(), () -> end(swap)));
    }
    ImageStore store = set.store;
    if (store != null && !isDumping()) {
      queue
          .overBudget(set.hostMemory, now)
          .ifPresent(
              process -> {
                process.setBusy(true);
                underWay++;
                due.add(
                    () ->
                        ending(
                            () -> new SlotDump(this, moves, store, process, closing).run(),
                            () -> process.setBusy(false)));
              });
    }
    if (!due.isEmpty() || withTurn().size() != before.size()) {
      changed.signalAll();
    }
    return due;
  }

  private List<QueuedProcess> withTurn() {
    return queue.inOrder().stream().filter(QueuedProcess::hasTurn).toList();
  }

  private boolean isDumping() {
    return queue.inOrder().stream()
        .anyMatch(each -> each.place() == Place.HOST_MEMORY && each.image() != null);
  }

  private void ending(Runnable work, Runnable end) {
    try {
      work.run();
    } catch (RuntimeException | Error e) {
      LOG.warn("slot {} goes on", set.name, e);
    } finally {
      locked(
          () -> {
            end.run();
            underWay--;
            trySave();
            changed.signalAll();
            return underWay;
          });
    }
  }

  private void end(SlotQueue.Swap swap) {
    queue.end(swap);
    Optional.ofNullable(swap.in()).ifPresent(swaps::remove);
  }

  private void removeEnded() {
    for (QueuedProcess each : queue.inOrder()) {
      if (each.place() != Place.DISK && !each.isBusy() && hasEnded(each)) {
        leave(each, Kind.ENDED);
      }
    }
  }

  private boolean hasEnded(QueuedProcess process) {
    try {
      if (process.process().isAlive()) {
        return false;
      }
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

  // ---------------------------------------------------------------- what swaps and dumps report

  /** Runs a change of the queue under the lock. */
  <T> T locked(Supplier<T> change) {
    lock.lock();
    try {
      return change.get();
    } finally {
      lock.unlock();
    }
  }

  /** Records that a process has left its GPUs. */
  void left(QueuedProcess process, CheckpointedProcess suspended, Duration took) {
    locked(
        () -> {
          setUsage(process, suspended);
          process.setPlace(Place.HOST_MEMORY);
          process.end(System.nanoTime(), queue.ticket());
          process.succeeded(System.nanoTime());
          running.remove(process);
          tell(Kind.SUSPENDED, Subject.of(process), took);
          return process;
        });
  }

  /** Records that it is not known where a process is: it may be on its GPUs or not. */
  void unknown(QueuedProcess process) {
    locked(
        () -> {
          process.setPlace(Place.HOST_MEMORY);
          process.end(System.nanoTime(), queue.ticket());
          running.remove(process);
          return process;
        });
  }

  /** Records that a process runs on its GPUs, and begins its turn. */
  void came(QueuedProcess process, RunningProcess now, Duration took, boolean again) {
    locked(
        () -> {
          process.setPlace(Place.GPU);
          if (again) {
            process.beginAgain(System.nanoTime());
          } else {
            process.begin(System.nanoTime());
          }
          running.put(process, now);
          tell(Kind.STARTED, Subject.of(process), took);
          return process;
        });
  }

  /**
   * Records that a process has come from its image. It must not run before this returns: the record
   * would name an image that is out of date.
   *
   * @throws StateDirectoryException when it cannot be recorded
   */
  void restored(QueuedProcess process, CheckpointedProcess now, Duration took) {
    locked(
        () -> {
          Optional.ofNullable(process.image()).ifPresent(obsolete::add);
          process.setIdentity(now.identity(), ProcessKey.of(now.identity()));
          process.setImage(null);
          process.setPlace(Place.HOST_MEMORY);
          tell(Kind.RESTORED, Subject.of(process), took);
          save();
          return process;
        });
  }

  /**
   * Records that an image of a process is about to be made, or was made.
   *
   * @throws StateDirectoryException when it cannot be recorded
   */
  void recordImage(QueuedProcess process, @Nullable Path image) {
    locked(
        () -> {
          process.setImage(image);
          save();
          return process;
        });
  }

  /** Records that a process is in its image only. */
  void dumped(QueuedProcess process, Duration took) {
    locked(
        () -> {
          process.setPlace(Place.DISK);
          process.succeeded(System.nanoTime());
          running.remove(process);
          tell(Kind.DUMPED, Subject.of(process), took);
          return process;
        });
  }

  /** Records that a dump left no image, or one that the process does not need. */
  void notDumped(QueuedProcess process) {
    locked(
        () -> {
          Optional.ofNullable(process.image()).ifPresent(obsolete::add);
          process.setImage(null);
          trySave();
          return process;
        });
  }

  /** Records that the record is as the queue, before a process goes on. */
  void requireRecorded() {
    locked(
        () -> {
          if (!isRecorded) {
            save();
          }
          return isRecorded;
        });
  }

  /** Records that a move of a process failed. */
  void failed(QueuedProcess process, Throwable why, Duration took) {
    locked(
        () -> {
          process.failed(why, System.nanoTime(), took);
          news.execute(() -> deliver(event(Kind.FAILED, Subject.of(process), took, why)));
          return process;
        });
  }

  /** Delays the next move of a process because of another process. */
  void delay(QueuedProcess process, Throwable why, Duration took) {
    locked(
        () -> {
          process.failed(why, System.nanoTime(), took);
          return process;
        });
  }

  /** Takes a process that has ended, or cannot be moved, out of the queue. */
  void leave(QueuedProcess process, Kind kind) {
    locked(
        () -> {
          queue.remove(process);
          running.remove(process);
          tell(kind, Subject.of(process), null);
          trySave();
          changed.signalAll();
          return process;
        });
  }

  /** Removes the images that no process needs any more. */
  void removeObsolete() {
    for (Path image : locked(() -> List.copyOf(obsolete))) {
      Path directory = Objects.requireNonNull(image.getParent());
      try {
        Optional<String> why = set.checkpoints.store(directory).discard(image);
        if (why.isPresent()) {
          LOG.debug("{} stays: it {}", image, why.get());
          continue;
        }
      } catch (ImageException e) {
        if (e.reason() != ImageException.Reason.MISSING) {
          LOG.warn("an image that is not needed any more stays: {}", e.getMessage());
          continue;
        }
      }
      locked(() -> obsolete.remove(image));
    }
  }

  private static void setUsage(QueuedProcess process, GpuProcess found) {
    SlotMoves.Usage usage = SlotMoves.Usage.of(found);
    process.setUsage(usage.gpus(), usage.bytes());
  }

  // ---------------------------------------------------------------- record and listener

  private SlotRecord.Content content() {
    return SlotRecord.Content.of(queue.inOrder(), obsolete, System.nanoTime());
  }

  private void save() {
    isRecorded = false;
    record.write(content());
    isRecorded = true;
  }

  /** Saves what is not needed for the safety of a process; it is saved later if that fails. */
  private void trySave() {
    try {
      save();
    } catch (StateDirectoryException e) {
      LOG.warn("the queue of slot {} is not recorded: {}", set.name, e.getMessage());
    }
  }

  private void tell(Kind kind, Subject subject, @Nullable Duration took) {
    SlotEvent event = event(kind, subject, took == null ? Duration.ZERO : took, null);
    news.execute(() -> deliver(event));
  }

  private static SlotEvent event(
      Kind kind, Subject subject, Duration took, @Nullable Throwable failure) {
    return new SlotEvent(Instant.now(), kind, subject.process(), subject.gpus(), took, failure);
  }

  private void deliver(SlotEvent event) {
    Consumer<SlotEvent> listener = set.listener;
    try {
      listener.accept(event);
    } catch (Throwable e) {
      LOG.warn("the listener of slot {} failed", set.name, e);
    }
  }
}
