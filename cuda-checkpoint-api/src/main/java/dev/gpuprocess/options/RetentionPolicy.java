package dev.gpuprocess.options;

import dev.gpuprocess.internal.time.Durations;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

/**
 * Which images of a process an {@link dev.gpuprocess.ImageStore} keeps: the newest, and one for
 * each interval of some time before it. What any of the rules keeps stays. Ages are measured from
 * the newest image, so that the images of a process that has ended do not wear away. Immutable.
 */
public final class RetentionPolicy {

  private static final RetentionPolicy DEFAULTS = new Builder().build();

  private final Builder set;

  private RetentionPolicy(Builder set) {
    this.set = set;
  }

  /**
   * One image for each interval, of a span of time.
   *
   * @param interval how far apart the images are that stay, in whole seconds
   * @param span how far back from the newest image this goes
   */
  public record OnePer(Duration interval, Duration span) {

    /**
     * Checks both.
     *
     * @throws IllegalArgumentException when the interval is less than a second or has a fraction of
     *     one, or the span is not positive
     */
    public OnePer {
      if (interval.toSeconds() < 1 || interval.toNanosPart() != 0) {
        throw new IllegalArgumentException(
            "images can be kept for intervals of whole seconds, not of " + interval);
      }
      span = Durations.positive("span of a retention", span);
    }
  }

  /**
   * The newest three images.
   *
   * @return the defaults
   */
  public static RetentionPolicy ofDefaults() {
    return DEFAULTS;
  }

  /**
   * Starts from the defaults.
   *
   * @return a builder
   */
  public static Builder builder() {
    return new Builder();
  }

  /**
   * Starts from this policy.
   *
   * @return a builder
   */
  public Builder toBuilder() {
    return set.copy();
  }

  /**
   * How many of the newest images stay.
   *
   * @return at least 1
   */
  public int keepLast() {
    return set.keepLast;
  }

  /**
   * The images that stay for longer.
   *
   * @return in the order in which they were added; empty for none
   */
  public List<OnePer> intervals() {
    return set.intervals;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof RetentionPolicy policy
        && policy.keepLast() == keepLast()
        && policy.intervals().equals(intervals());
  }

  @Override
  public int hashCode() {
    return 31 * keepLast() + intervals().hashCode();
  }

  @Override
  public String toString() {
    return "the newest " + keepLast() + (intervals().isEmpty() ? "" : " and " + intervals());
  }

  /** Builds {@link RetentionPolicy}. Not for use by several threads. */
  public static final class Builder extends OptionsBuilder<Builder> {

    private int keepLast = 3;
    private List<OnePer> intervals = List.of();

    private Builder() {}

    /**
     * Keeps the newest images.
     *
     * @param count how many, 3 by default
     * @return this builder
     * @throws IllegalArgumentException when it is less than 1
     */
    public Builder keepLast(int count) {
      if (count < 1) {
        throw new IllegalArgumentException(
            "the newest image always stays, so the count must be at least 1, not " + count);
      }
      this.keepLast = count;
      return this;
    }

    /**
     * Keeps, besides, the newest image of each interval, such as one an hour for a day. Intervals
     * begin where UTC has them: those of an hour at the full hour. Can be called several times.
     *
     * @param interval of whole seconds
     * @param span how far back from the newest image; {@code ChronoUnit.FOREVER.getDuration()} has
     *     no end
     * @return this builder
     * @throws IllegalArgumentException when the interval is less than a second or has a fraction of
     *     one, or the span is not positive
     */
    public Builder keepOnePer(Duration interval, Duration span) {
      List<OnePer> more = new ArrayList<>(intervals);
      more.add(new OnePer(interval, span));
      this.intervals = List.copyOf(more);
      return this;
    }

    /**
     * Takes the values as they are now; the builder may be used again.
     *
     * @return the policy
     */
    public RetentionPolicy build() {
      return new RetentionPolicy(copy());
    }
  }
}
