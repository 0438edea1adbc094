package dev.gpuprocess.slot;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuProcess;
import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.cuda.GpuUuid;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.internal.linux.ProcessKey;
import dev.gpuprocess.internal.state.StateDirectoryException;
import dev.gpuprocess.internal.time.Deadline;
import dev.gpuprocess.internal.time.Durations;
import dev.gpuprocess.internal.time.Uninterrupted;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.slot.SlotEvent.Kind;
import dev.gpuprocess.slot.SlotProcess.Place;
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
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The queue of an open slot with its lock, its record on disk and its listener. Swaps and dumps
 * report here what they have done. No verb runs while the lock is held. Safe for use by several
 * threads.
 */
final class SlotState implements AutoCloseable {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  private final GpuSlot.Builder set;
  private final SlotRecord record;
  private final SlotQueue queue;
  private final List<Path> obsolete;
  private final Map<QueuedProcess, RunningProcess> running = new HashMap<>();

  /** The images of processes that have come from them and have not run since. */
  private final Map<QueuedProcess, Path> fallbacks;

  /** The processes that the record may name an image of. */
  private Set<QueuedProcess> withImage = Set.of();

  private final ReentrantLock lock = new ReentrantLock();
  private final ReentrantLock removals = new ReentrantLock();
  private final Condition changed = lock.newCondition();
  private final ExecutorService news;
  private long changes;

  /** Continues with what the record has. */
  SlotState(GpuSlot.Builder set, SlotRecord record) {
    this.set = set;
    this.record = record;
    this.queue = new SlotQueue(Durations.nanos(set.quantum));
    SlotOpening opening = new SlotOpening(set.checkpoints, record.read());
    opening.fill(queue);
    this.obsolete = new ArrayList<>(opening.obsolete());
    this.fallbacks = new HashMap<>(opening.fallbacks());
    this.news =
        new ThreadPoolExecutor(
            1,
            1,
            0,
            TimeUnit.SECONDS,
            new LinkedBlockingQueue<>(),
            work -> set.thread(work, "gpuprocess slot news"),
            new ThreadPoolExecutor.DiscardPolicy());
    save();
    opening.ended().forEach(each -> tell(Kind.ENDED, each, Set.of(), Duration.ZERO, null));
  }

  /** Returns the queue, for use under the lock. */
  SlotQueue queue() {
    return queue;
  }

  /** Wakes the threads that wait; under the lock. */
  void signal() {
    changes++;
    changed.signalAll();
  }

  /** Waits until something has changed, or the time is up; under the lock. */
  void await(long nanos) throws InterruptedException {
    long seen = changes;
    for (long rest = nanos; rest > 0 && changes == seen; ) {
      rest = changed.awaitNanos(rest);
    }
  }

  /**
   * Waits under the lock until a condition holds. An interrupt does not shorten the wait.
   *
   * @return false when it does not hold at the deadline
   */
  boolean awaitUntil(Deadline deadline, BooleanSupplier condition) {
    return locked(
        () ->
            Uninterrupted.until(
                deadline,
                left -> {
                  for (long rest = left; rest > 0 && !condition.getAsBoolean(); ) {
                    rest = changed.awaitNanos(rest);
                  }
                  return condition.getAsBoolean();
                }));
  }

  /**
   * Enters a process.
   *
   * @throws StateDirectoryException when it cannot be recorded; it is not entered
   */
  void enter(QueuedProcess process) {
    queue.add(process);
    try {
      save();
    } catch (StateDirectoryException e) {
      queue.remove(process);
      throw e;
    }
  }

  /** Returns the object that the last swap has made of a process, once; else null. */
  @Nullable RunningProcess takeRunning(QueuedProcess process) {
    return locked(() -> running.remove(process));
  }

  /** Notifies the listener of what took no time. */
  void tell(Kind kind, QueuedProcess process) {
    tell(kind, process, Duration.ZERO);
  }

  /** Runs a change of the queue under the lock. */
  void change(Runnable change) {
    lock.lock();
    try {
      change.run();
    } finally {
      lock.unlock();
    }
  }

  /** Runs under the lock what returns something. */
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
    change(
        () -> {
          setUsage(process, suspended);
          process.setPlace(Place.HOST_MEMORY);
          process.end(System.nanoTime(), queue.ticket());
          process.succeeded(System.nanoTime());
          running.remove(process);
          tell(Kind.SUSPENDED, process, took);
        });
  }

  /** Records that it is not known where a process is: it may be on its GPUs or not. */
  void unknown(QueuedProcess process) {
    change(
        () -> {
          process.setPlace(Place.HOST_MEMORY);
          process.end(System.nanoTime(), queue.ticket());
          running.remove(process);
        });
  }

  /** Records that a process runs on its GPUs, and begins its turn. */
  void came(QueuedProcess process, RunningProcess now, Duration took, boolean again) {
    change(
        () -> {
          process.setPlace(Place.GPU);
          if (again) {
            process.beginAgain(System.nanoTime());
          } else {
            process.begin(System.nanoTime());
          }
          running.put(process, now);
          Optional.ofNullable(fallbacks.remove(process)).ifPresent(obsolete::add);
          tell(Kind.STARTED, process, took);
        });
  }

  /**
   * Records that a process has come from its image, which stays until the process runs. It must not
   * run before this returns: the record would name an image that is out of date.
   *
   * @throws StateDirectoryException when it cannot be recorded
   */
  void restored(QueuedProcess process, CheckpointedProcess now, Duration took) {
    change(
        () -> {
          Optional.ofNullable(process.image()).ifPresent(image -> fallbacks.put(process, image));
          process.setIdentity(now.identity(), ProcessKey.of(now.identity()));
          process.setImage(null);
          process.setPlace(Place.HOST_MEMORY);
          save();
          tell(Kind.RESTORED, process, took);
        });
  }

  /**
   * Records that an image of a process is about to be made, or was made.
   *
   * @throws StateDirectoryException when it cannot be recorded
   */
  void recordImage(QueuedProcess process, @Nullable Path image) {
    change(
        () -> {
          process.setImage(image);
          save();
        });
  }

  /** Records that a process is in its image only. */
  void dumped(QueuedProcess process, Duration took) {
    change(
        () -> {
          process.setPlace(Place.DISK);
          Optional.ofNullable(fallbacks.remove(process)).ifPresent(obsolete::add);
          process.succeeded(System.nanoTime());
          running.remove(process);
          tell(Kind.DUMPED, process, took);
        });
  }

  /** Records that a dump left no image, or one that the process does not need. */
  void notDumped(QueuedProcess process) {
    change(
        () -> {
          Optional.ofNullable(process.image()).ifPresent(obsolete::add);
          process.setImage(null);
          trySave();
        });
  }

  /**
   * Requires that the record names no image of a process, which goes on next.
   *
   * @throws StateDirectoryException when that cannot be recorded
   */
  void requireRecorded(QueuedProcess process) {
    change(
        () -> {
          Path image = process.image();
          if (image != null) {
            fallbacks.put(process, image);
            process.setImage(null);
          }
          if (withImage.contains(process)) {
            save();
          }
        });
  }

  /** Records that a move of a process failed. */
  void failed(QueuedProcess process, Throwable why, Duration took) {
    change(
        () -> {
          process.failed(why, System.nanoTime(), took);
          tell(Kind.FAILED, process.process(), process.gpus(), took, why);
        });
  }

  /** Notifies the listener of a process that could not be dumped as it is now. */
  void undumpable(QueuedProcess process, Throwable why) {
    tell(Kind.UNDUMPABLE, process.process(), process.gpus(), Duration.ZERO, why);
  }

  /** Delays the next move of a process because of another process. */
  void delay(QueuedProcess process, Throwable why, Duration took) {
    change(() -> process.failed(why, System.nanoTime(), took));
  }

  /** Takes a process that has ended, or cannot be moved, out of the queue. */
  void leave(QueuedProcess process, Kind kind) {
    change(
        () -> {
          forget(process);
          trySave();
          tell(kind, process);
          signal();
        });
  }

  /** Takes a process out of the queue; an image that it came from stays. */
  private void forget(QueuedProcess process) {
    queue.remove(process);
    running.remove(process);
    Optional.ofNullable(fallbacks.remove(process))
        .ifPresent(image -> LOG.info("process {} leaves its image {}", process.pid(), image));
  }

  /**
   * Takes a process out of the queue for its owner.
   *
   * @throws StateDirectoryException when that cannot be recorded: the next controller would move
   *     the process, so it stays in the queue
   */
  void remove(QueuedProcess process) {
    change(
        () -> {
          queue.remove(process);
          try {
            save();
          } catch (StateDirectoryException e) {
            queue.add(process);
            throw e;
          }
          forget(process);
          tell(Kind.REMOVED, process);
          signal();
        });
  }

  /** Removes the images that no process needs any more, unless another thread does that now. */
  void removeObsolete() {
    if (!removals.tryLock()) {
      return;
    }
    try {
      locked(() -> List.copyOf(obsolete)).stream()
          .filter(this::isRemoved)
          .forEach(image -> change(() -> obsolete.remove(image)));
    } finally {
      removals.unlock();
    }
  }

  private boolean isRemoved(Path image) {
    try {
      Path directory = Objects.requireNonNull(image.getParent());
      Optional<String> why = set.checkpoints.store(directory).remove(image);
      why.ifPresent(text -> LOG.debug("{} stays: it {}", image, text));
      return why.isEmpty();
    } catch (ImageException e) {
      if (e.reason() != ImageException.Reason.MISSING) {
        LOG.warn("an image that is not needed any more stays: {}", e.getMessage());
      }
      return e.reason() == ImageException.Reason.MISSING;
    }
  }

  static void setUsage(QueuedProcess process, GpuProcess found) {
    SlotMoves.Usage usage = SlotMoves.Usage.of(found);
    process.setUsage(usage.gpus(), usage.bytes());
  }

  private SlotRecord.Content content() {
    return SlotRecord.Content.of(queue.inOrder(), obsolete, System.nanoTime());
  }

  private void save() {
    Set<QueuedProcess> named =
        queue.inOrder().stream().filter(each -> each.image() != null).collect(Collectors.toSet());
    Set<QueuedProcess> before = withImage;
    // A write that fails may have replaced the record.
    withImage = Stream.concat(before.stream(), named.stream()).collect(Collectors.toSet());
    record.write(content());
    withImage = named;
  }

  /** Saves what is not needed for the safety of a process; it is saved later if that fails. */
  void trySave() {
    try {
      save();
    } catch (StateDirectoryException e) {
      LOG.warn("the queue of slot {} is not recorded: {}", set.name, e.getMessage());
    }
  }

  private void tell(Kind kind, QueuedProcess process, Duration took) {
    tell(kind, process.process(), process.gpus(), took, null);
  }

  private void tell(
      Kind kind,
      ProcessIdentity process,
      Set<GpuUuid> gpus,
      Duration took,
      @Nullable Throwable failure) {
    SlotEvent event = new SlotEvent(Instant.now(), kind, process, gpus, took, failure);
    news.execute(() -> deliver(event));
  }

  private void deliver(SlotEvent event) {
    Consumer<SlotEvent> listener = set.listener;
    try {
      listener.accept(event);
    } catch (Throwable e) {
      LOG.warn("the listener of slot {} failed", set.name, e);
    }
  }

  /**
   * Saves the queue, lets another controller open the slot, and ends the thread of the listener.
   */
  @Override
  public void close() {
    change(this::trySave);
    record.close();
    closeNews();
  }

  /** Ends the thread of the listener, when it has been notified of all. */
  void closeNews() {
    news.shutdown();
    boolean unused =
        Uninterrupted.until(
            Deadline.after(set.checkpoints.timeouts().call()),
            left -> news.awaitTermination(left, TimeUnit.NANOSECONDS));
  }
}
