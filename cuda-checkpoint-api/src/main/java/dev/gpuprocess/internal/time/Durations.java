package dev.gpuprocess.internal.time;

import java.time.Duration;

/**
 * Arithmetic with durations of any length that does not overflow, even with {@code
 * ChronoUnit.FOREVER.getDuration()}. A duration longer than {@link #LONGEST} counts as that long.
 */
public final class Durations {

  /** Some 146 years: added to any {@link System#nanoTime()} it can still be compared. */
  public static final Duration LONGEST = Duration.ofNanos(Long.MAX_VALUE / 2);

  private Durations() {}

  /**
   * Returns a duration in nanoseconds.
   *
   * @return at most {@link #LONGEST}, at least its negative
   */
  public static long nanos(Duration time) {
    return bounded(time).toNanos();
  }

  /**
   * Returns a duration in milliseconds, rounded up.
   *
   * @return at most {@link #LONGEST}
   */
  public static long millis(Duration time) {
    return bounded(time).plusNanos(999_999).toMillis();
  }

  /**
   * Returns a duration in seconds, rounded up.
   *
   * @return at most {@link #LONGEST}
   */
  public static long seconds(Duration time) {
    return bounded(time).plusNanos(999_999_999).toSeconds();
  }

  /**
   * Adds two durations.
   *
   * @return at most {@link #LONGEST}
   */
  public static Duration plus(Duration one, Duration other) {
    return bounded(bounded(one).plus(bounded(other)));
  }

  /** Returns the shorter of two durations. */
  public static Duration min(Duration one, Duration other) {
    return one.compareTo(other) < 0 ? one : other;
  }

  /** Returns the longer of two durations. */
  public static Duration max(Duration one, Duration other) {
    return one.compareTo(other) > 0 ? one : other;
  }

  /**
   * Checks that a duration is positive.
   *
   * @param name what the duration is, for the message
   * @param time as the user set it
   * @return the duration
   * @throws IllegalArgumentException unless it is positive
   */
  public static Duration positive(String name, Duration time) {
    if (time.isNegative() || time.isZero()) {
      throw new IllegalArgumentException("the " + name + " must be positive, not " + time);
    }
    return time;
  }

  /**
   * Checks that a duration is not negative.
   *
   * @param name what the duration is, for the message
   * @param time as the user set it
   * @return the duration
   * @throws IllegalArgumentException when it is negative
   */
  public static Duration notNegative(String name, Duration time) {
    if (time.isNegative()) {
      throw new IllegalArgumentException("the " + name + " must not be negative, as " + time);
    }
    return time;
  }

  /**
   * Bounds a duration.
   *
   * @return at most {@link #LONGEST}, at least its negative
   */
  public static Duration bounded(Duration time) {
    if (time.isNegative()) {
      return time.compareTo(LONGEST.negated()) < 0 ? LONGEST.negated() : time;
    }
    return time.compareTo(LONGEST) > 0 ? LONGEST : time;
  }
}
