package dev.gpuprocess.internal.time;

import java.time.Duration;

/**
 * The end of the time of a wait, or of an operation with all its steps. A duration of any length
 * may be given. Immutable.
 */
public final class Deadline {

  private final Duration total;
  private final long start = System.nanoTime();

  private Deadline(Duration total) {
    this.total = Durations.bounded(total);
  }

  /** Returns a deadline that much later than now. */
  public static Deadline after(Duration total) {
    return new Deadline(total);
  }

  /** Returns a deadline that never passes. */
  public static Deadline never() {
    return after(Durations.LONGEST);
  }

  /** Returns this deadline, or one that much later than now if that is earlier. */
  public Deadline orAfter(Duration time) {
    return remaining().compareTo(time) < 0 ? this : after(time);
  }

  /** Returns how long the operation may take in all. */
  public Duration total() {
    return total;
  }

  /** Returns how long the operation has taken up to now. */
  public Duration elapsed() {
    return Duration.ofNanos(System.nanoTime() - start);
  }

  /** Returns the time left; zero when the deadline has passed. */
  public Duration remaining() {
    return Duration.ofNanos(nanos());
  }

  /** Returns the nanoseconds left; 0 when the deadline has passed. */
  public long nanos() {
    return Math.max(0, total.toNanos() - (System.nanoTime() - start));
  }

  /** Returns whether no time is left. */
  public boolean passed() {
    return nanos() == 0;
  }

  /**
   * Returns the milliseconds left, for {@code poll}, at most {@code most}; rounded up so that the
   * caller does not spin.
   */
  public int millis(int most) {
    return (int) Math.min(most, Durations.millis(remaining()));
  }

  /** A condition to wait for. */
  public interface Condition<X extends Exception> {
    boolean holds() throws X;
  }

  /**
   * Waits until a condition holds. An interrupt does not shorten the wait.
   *
   * @param pauseNanos the time between two checks
   * @return false when it does not hold at the deadline
   */
  public <X extends Exception> boolean await(long pauseNanos, Condition<X> condition) throws X {
    try (Polling polling = new Polling(remaining(), pauseNanos)) {
      return polling.await(condition);
    }
  }
}
