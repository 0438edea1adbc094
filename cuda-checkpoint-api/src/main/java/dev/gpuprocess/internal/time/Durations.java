package dev.gpuprocess.internal.time;

import java.time.Duration;

/**
 * Arithmetic with the durations that users give, however long they are: {@code
 * ChronoUnit.FOREVER.getDuration()} is one, and overflows nothing here. What is longer than {@link
 * #LONGEST} counts as that long.
 */
public final class Durations {

  /** Some 146 years: added to any {@link System#nanoTime()} it can still be compared. */
  public static final Duration LONGEST = Duration.ofNanos(Long.MAX_VALUE / 2);

  private Durations() {}

  /**
   * In nanoseconds.
   *
   * @param time any
   * @return at most {@link #LONGEST}, at least its negative
   */
  public static long nanos(Duration time) {
    return bounded(time).toNanos();
  }

  /**
   * In milliseconds, rounded up, for timeouts that count these.
   *
   * @param time any
   * @return at most {@link #LONGEST}
   */
  public static long millis(Duration time) {
    return bounded(time).plusNanos(999_999).toMillis();
  }

  /**
   * In seconds, rounded up, for timeouts that count these.
   *
   * @param time any
   * @return at most {@link #LONGEST}
   */
  public static long seconds(Duration time) {
    return bounded(time).plusNanos(999_999_999).toSeconds();
  }

  /**
   * Adds two durations.
   *
   * @param one any
   * @param other any
   * @return at most {@link #LONGEST}
   */
  public static Duration plus(Duration one, Duration other) {
    return bounded(bounded(one).plus(bounded(other)));
  }

  /**
   * The moment at which a time that begins now is over.
   *
   * @param time any
   * @return to be compared with {@link #left} alone
   */
  public static long end(Duration time) {
    return System.nanoTime() + nanos(time);
  }

  /**
   * What is left until a moment.
   *
   * @param end a moment that {@link #end} gave
   * @return in nanoseconds; 0 or less when it is over
   */
  public static long left(long end) {
    return end - System.nanoTime();
  }

  /**
   * Refuses a time in which nothing can be done.
   *
   * @param name what it is the time of, for the message
   * @param time as the user gave it
   * @return the same
   * @throws IllegalArgumentException unless it is positive
   */
  public static Duration positive(String name, Duration time) {
    if (time.isNegative() || time.isZero()) {
      throw new IllegalArgumentException("the " + name + " must be positive, not " + time);
    }
    return time;
  }

  /**
   * Refuses a time that would have to end before it begins.
   *
   * @param name what it is the time of, for the message
   * @param time as the user gave it
   * @return the same
   * @throws IllegalArgumentException when it is negative
   */
  public static Duration notNegative(String name, Duration time) {
    if (time.isNegative()) {
      throw new IllegalArgumentException("the " + name + " must not be negative, as " + time);
    }
    return time;
  }

  private static Duration bounded(Duration time) {
    if (time.isNegative()) {
      return time.compareTo(LONGEST.negated()) < 0 ? LONGEST.negated() : time;
    }
    return time.compareTo(LONGEST) > 0 ? LONGEST : time;
  }
}
