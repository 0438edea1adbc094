package dev.gpuprocess.internal.time;

import java.time.Duration;
import java.util.concurrent.TimeUnit;

/**
 * Polling with growing pauses until a deadline. An interrupt does not shorten the wait; {@link
 * #close} sets the thread's flag again. For one thread.
 */
public final class Polling implements AutoCloseable {

  private static final long FIRST_PAUSE = 1_000_000;
  private static final long LONGEST_PAUSE = 20_000_000;

  private final long begin = System.nanoTime();
  private final long limit;
  private long pause = FIRST_PAUSE;
  private boolean interrupted;

  /** Begins now. */
  public Polling(Duration limit) {
    this.limit = TimeUnit.NANOSECONDS.convert(limit);
  }

  /** Waits a little; false when the time is up. */
  public boolean pause() {
    long left = limit - (System.nanoTime() - begin);
    if (left <= 0) {
      return false;
    }
    long end = System.nanoTime() + Math.min(left, pause);
    pause = Math.min(LONGEST_PAUSE, pause * 2);
    for (long rest = end - System.nanoTime(); rest > 0; rest = end - System.nanoTime()) {
      try {
        TimeUnit.NANOSECONDS.sleep(rest);
      } catch (InterruptedException e) {
        interrupted = true;
      }
    }
    return true;
  }

  @Override
  public void close() {
    if (interrupted) {
      Thread.currentThread().interrupt();
    }
  }
}
