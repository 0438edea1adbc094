package dev.gpuprocess.internal.time;

import java.time.Duration;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/**
 * Polling until a deadline, by default with growing pauses. An interrupt does not shorten the wait;
 * {@link #close} sets the thread's flag again. For one thread.
 */
public final class Polling implements AutoCloseable {

  private static final long FIRST_PAUSE = 1_000_000;
  private static final long LONGEST_PAUSE = 20_000_000;

  private final long begin = System.nanoTime();
  private final long limit;
  private final long longest;
  private long pause;
  private boolean interrupted;

  /** Begins now. */
  public Polling(Duration limit) {
    this(limit, FIRST_PAUSE, LONGEST_PAUSE);
  }

  /** Begins now, with pauses of a fixed length. */
  public Polling(Duration limit, long pauseNanos) {
    this(limit, pauseNanos, pauseNanos);
  }

  private Polling(Duration limit, long pause, long longest) {
    this.limit = TimeUnit.NANOSECONDS.convert(limit);
    this.pause = pause;
    this.longest = longest;
  }

  /**
   * Waits until a condition holds, with growing pauses.
   *
   * @return false when it does not hold at the end of the limit
   */
  public static <X extends Exception> boolean until(Duration limit, Deadline.Condition<X> condition)
      throws X {
    try (Polling polling = new Polling(limit)) {
      return polling.await(condition);
    }
  }

  <X extends Exception> boolean await(Deadline.Condition<X> condition) throws X {
    while (!condition.holds()) {
      if (!pause()) {
        return false;
      }
    }
    return true;
  }

  /** Waits a little; false at the deadline. */
  public boolean pause() {
    long left = limit - (System.nanoTime() - begin);
    if (left <= 0) {
      return false;
    }
    interrupted |= park(Math.min(left, pause));
    pause = Math.min(longest, pause * 2);
    return true;
  }

  /** Returns whether the thread was interrupted during a pause. */
  public boolean isInterrupted() {
    return interrupted;
  }

  /**
   * Waits that long. Unlike a sleep, it does not round up to milliseconds on Java 17.
   *
   * @return whether the thread was interrupted; its flag is cleared
   */
  static boolean park(long nanos) {
    long end = System.nanoTime() + nanos;
    boolean interrupted = Thread.interrupted();
    for (long left = nanos; left > 0; left = end - System.nanoTime()) {
      LockSupport.parkNanos(left);
      interrupted |= Thread.interrupted();
    }
    return interrupted;
  }

  @Override
  public void close() {
    if (interrupted) {
      Thread.currentThread().interrupt();
    }
  }
}
