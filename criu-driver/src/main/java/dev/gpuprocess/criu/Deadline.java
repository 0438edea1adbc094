package dev.gpuprocess.criu;

import java.time.Duration;

/** A point in time that a whole operation shares. */
final class Deadline {

  private static final Duration LONGEST = Duration.ofDays(10_000);

  private final Duration total;
  private final long start = System.nanoTime();

  private Deadline(Duration total) {
    this.total = total.compareTo(LONGEST) > 0 ? LONGEST : total;
  }

  static Deadline after(Duration total) {
    return new Deadline(total);
  }

  Duration total() {
    return total;
  }

  Duration elapsed() {
    return Duration.ofNanos(System.nanoTime() - start);
  }

  Duration remaining() {
    Duration left = total.minus(elapsed());
    return left.isNegative() ? Duration.ZERO : left;
  }

  boolean passed() {
    return remaining().isZero();
  }

  /** For poll: what is left, at most {@code most}, rounded up so that it does not spin. */
  int millis(int most) {
    return (int) Math.min(most, remaining().plusNanos(999_999).toMillis());
  }
}
