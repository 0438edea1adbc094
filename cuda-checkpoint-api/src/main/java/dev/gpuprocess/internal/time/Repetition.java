package dev.gpuprocess.internal.time;

import java.time.Duration;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Has work done at an interval, one piece at a time, on a daemon thread of its own. What is due
 * while the piece before is under way is left out, so nothing piles up. Safe for use by several
 * threads.
 */
public final class Repetition implements AutoCloseable {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  /** How long it may take to see that the subject has ended. */
  private static final long LOOK_NANOS = 1_000_000_000;

  /** What is done again and again. Nothing that a method throws ends the repetition. */
  public interface Work {

    /**
     * Does it once; on the worker's thread.
     *
     * @param by tells whether to go on with what takes long
     */
    void run(Repetition by);

    /** A piece was due while another one was under way; on the timer's thread. */
    void leftOut();

    /**
     * So many pieces were due while this JVM stood still; on the timer's thread.
     *
     * @param count at least 1
     */
    void missed(long count);

    /** Whether there is nothing left to work on; on the timer's thread, about once a second. */
    boolean isOver();

    /**
     * Told once, when no piece will follow, and none is under way; on the worker's thread.
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
   * Prepares it.
   *
   * @param interval the first piece is due after one
   * @param name of the threads
   */
  public Repetition(Work work, Duration interval, String name) {
    this.work = work;
    this.interval = Durations.nanos(Durations.positive("interval", interval));
    this.worker = new Thread(this::work, name);
    this.timer = new Thread(this::watch, name + " timer");
    worker.setDaemon(true);
    timer.setDaemon(true);
  }

  /** Begins, once. When it fails nothing was begun. */
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

  /** A piece is due: the next one is so a whole number of intervals later. */
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

  /** Waits for something to do; false when all is over and nobody is at work. */
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
      // Of no meaning to the next piece.
      boolean unused = Thread.interrupted();
      return true;
    } finally {
      lock.unlock();
    }
  }

  /**
   * Takes the place of the worker, for a piece that the caller does itself; to be {@linkplain
   * #release released}.
   *
   * @return false when a piece is under way, or all is over
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

  /** The piece that this thread did is done. */
  public void release() {
    signal(() -> busy = null);
  }

  /** Whether no piece will be begun any more. */
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
   * Waits a while.
   *
   * @return true when the time is up; false, at once, when all is over
   */
  public boolean pause(Duration time) {
    return await(Durations.nanos(time));
  }

  private boolean await(long nanos) {
    long end = System.nanoTime() + nanos;
    lock.lock();
    try {
      return Uninterrupted.until(
          end,
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

  /** No piece is begun any more. The one that is under way goes on. Does not wait. */
  @Override
  public void close() {
    stop(true);
  }

  /**
   * Waits until all is told. Called by the work itself, it returns at once.
   *
   * @return false when the time was up before that
   */
  public boolean awaitEnd(Duration patience) {
    long end = Durations.end(patience);
    lock.lock();
    try {
      Thread self = Thread.currentThread();
      if (self.equals(busy) || self.equals(worker) || self.equals(timer)) {
        return ended;
      }
      return Uninterrupted.until(
          end,
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
