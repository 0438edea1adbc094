package dev.gpuprocess.internal.time;

import java.time.Duration;

/** The deadline of a whole operation, shared by all its steps. Immutable. */
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
    Duration left = total.minus(elapsed());
    return left.isNegative() ? Duration.ZERO : left;
  }

  /** Returns whether no time is left. */
  public boolean passed() {
    return remaining().isZero();
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
