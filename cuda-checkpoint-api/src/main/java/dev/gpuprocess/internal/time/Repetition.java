package dev.gpuprocess.internal.time;

import java.time.Duration;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Runs work at an interval on a daemon thread, one run at a time. A run that is due while the
 * previous one is under way is skipped. Safe for use by several threads.
 */
public final class Repetition implements AutoCloseable {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  /** The interval at which {@link Work#isOver} is called. */
  private static final long LOOK_NANOS = 1_000_000_000;

  /** The repeated work. An exception of a method does not end the repetition. */
  public interface Work {

    /**
     * Does the work once; on the worker's thread.
     *
     * @param by its {@link #isOver} says whether long work must stop
     */
    void run(Repetition by);

    /** Called when a run was skipped because another one was under way; on the timer's thread. */
    void leftOut();

    /**
     * Called when runs were due while this JVM was stopped; on the timer's thread.
     *
     * @param count how many, at least 1
     */
    void missed(long count);

    /**
     * Returns whether the subject of the work has ended; on the timer's thread, about once a
     * second.
     */
    boolean isOver();

    /**
     * Called once, after the last run; on the worker's thread.
     *
     * @param closed whether it was closed; otherwise the subject has ended
     */
    void ended(boolean closed);
  }

  private final Work work;
  private final long interval;
  private final Thread timer;
  private final Thread worker;
  private final ReentrantLock lock = new ReentrantLock();
  private final Condition changed = lock.newCondition();
  private boolean isDue;
  private boolean over;
  private boolean closed;
  private boolean ended;
  private @Nullable Thread busy;

  /**
   * Creates a repetition, which {@link #start} starts.
   *
   * @param interval the time between two runs and before the first
   * @param name the name of the threads
   */
  public Repetition(Work work, Duration interval, String name) {
    this.work = work;
    this.interval = Durations.nanos(Durations.positive("interval", interval));
    this.worker = Threads.daemon(name, this::work);
    this.timer = Threads.daemon(name + " timer", this::watch);
  }

  /** Starts the threads, once; either both or none. */
  public void start() {
    worker.start();
    try {
      timer.start();
    } catch (RuntimeException | Error e) {
      stop(true);
      throw e;
    }
  }

  private void watch() {
    long due = System.nanoTime() + interval;
    while (await(Math.min(due - System.nanoTime(), LOOK_NANOS))) {
      try {
        if (work.isOver()) {
          stop(false);
        } else if (System.nanoTime() - due >= 0) {
          due = passed(due);
        }
      } catch (RuntimeException | Error e) {
        LOG.warn("{} goes on", Thread.currentThread().getName(), e);
        boolean unused = await(LOOK_NANOS);
      }
    }
  }

  /** Starts a run that is due; the next one is due a whole number of intervals later. */
  private long passed(long due) {
    long missed = (System.nanoTime() - due) / interval;
    if (missed > 0) {
      work.missed(missed);
    }
    if (!begin()) {
      work.leftOut();
    }
    return due + (missed + 1) * interval;
  }

  private boolean begin() {
    lock.lock();
    try {
      if (busy != null || isDue) {
        return over;
      }
      isDue = true;
      changed.signalAll();
      return true;
    } finally {
      lock.unlock();
    }
  }

  private void work() {
    while (awaitWork()) {
      try {
        work.run(this);
      } catch (RuntimeException | Error e) {
        LOG.warn("{} goes on", Thread.currentThread().getName(), e);
      } finally {
        release();
      }
    }
    try {
      work.ended(closed());
    } catch (RuntimeException | Error e) {
      LOG.warn("{} has ended all the same", Thread.currentThread().getName(), e);
    } finally {
      signal(() -> ended = true);
    }
  }

  /** Waits for the next run; false when the repetition has ended. */
  private boolean awaitWork() {
    lock.lock();
    try {
      while (busy != null || !(isDue || over)) {
        changed.awaitUninterruptibly();
      }
      if (over) {
        return false;
      }
      isDue = false;
      busy = Thread.currentThread();
      // An interrupt of the previous run does not concern the next one.
      boolean unused = Thread.interrupted();
      return true;
    } finally {
      lock.unlock();
    }
  }

  /**
   * Takes the place of the worker, for a run by the caller; to be {@linkplain #release released}.
   *
   * @return false when a run is under way, or the repetition has ended
   */
  public boolean tryTake() {
    lock.lock();
    try {
      if (busy != null || isDue || over) {
        return false;
      }
      busy = Thread.currentThread();
      return true;
    } finally {
      lock.unlock();
    }
  }

  /** Ends the run of this thread. */
  public void release() {
    signal(() -> busy = null);
  }

  /** Returns whether no run will start any more. */
  public boolean isOver() {
    lock.lock();
    try {
      return over;
    } finally {
      lock.unlock();
    }
  }

  private boolean closed() {
    lock.lock();
    try {
      return closed;
    } finally {
      lock.unlock();
    }
  }

  /**
   * Waits.
   *
   * @return true at the end of the time; false, at once, when the repetition has ended
   */
  public boolean pause(Duration time) {
    return await(Durations.nanos(time));
  }

  private boolean await(long nanos) {
    Deadline deadline = Deadline.after(Duration.ofNanos(nanos));
    lock.lock();
    try {
      return Uninterrupted.until(
          deadline,
          left -> {
            for (long rest = left; rest > 0 && !over; ) {
              rest = changed.awaitNanos(rest);
            }
            return !over;
          });
    } finally {
      lock.unlock();
    }
  }

  private void stop(boolean byClosing) {
    signal(
        () -> {
          closed = over ? closed : byClosing;
          over = true;
        });
  }

  private void signal(Runnable change) {
    lock.lock();
    try {
      change.run();
      changed.signalAll();
    } finally {
      lock.unlock();
    }
  }

  /** Prevents further runs. A run under way continues. Does not wait. */
  @Override
  public void close() {
    stop(true);
  }

  /**
   * Waits until {@link Work#ended} has returned. Returns at once if the work calls it.
   *
   * @return false when that was not so within the time
   */
  public boolean awaitEnd(Duration patience) {
    Deadline deadline = Deadline.after(patience);
    lock.lock();
    try {
      Thread self = Thread.currentThread();
      if (self.equals(busy) || self.equals(worker) || self.equals(timer)) {
        return ended;
      }
      return Uninterrupted.until(
          deadline,
          left -> {
            for (long rest = left; rest > 0 && !ended; ) {
              rest = changed.awaitNanos(rest);
            }
            return ended;
          });
    } finally {
      lock.unlock();
    }
  }
}
