package dev.gpuprocess.internal.time;

import java.time.Duration;

/** The deadline of a whole operation, shared by all its steps. */
public final class Deadline {

  private final Duration total;
  private final long start = System.nanoTime();

  private Deadline(Duration total) {
    this.total = total.compareTo(Durations.LONGEST) > 0 ? Durations.LONGEST : total;
  }

  public static Deadline after(Duration total) {
    return new Deadline(total);
  }

  public Duration total() {
    return total;
  }

  public Duration elapsed() {
    return Duration.ofNanos(System.nanoTime() - start);
  }

  public Duration remaining() {
    Duration left = total.minus(elapsed());
    return left.isNegative() ? Duration.ZERO : left;
  }

  public boolean passed() {
    return remaining().isZero();
  }

  /**
   * The remaining milliseconds for poll, at most {@code most}; rounded up so that the caller does
   * not spin.
   */
  public int millis(int most) {
    return (int) Math.min(most, Durations.millis(remaining()));
  }
}
