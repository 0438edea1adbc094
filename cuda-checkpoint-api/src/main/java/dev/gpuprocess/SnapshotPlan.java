package dev.gpuprocess;

import dev.gpuprocess.internal.time.Durations;
import java.time.Duration;

/** How often snapshots are made, where to, and which of them stay. Immutable. */
public final class SnapshotPlan extends Plan {

  private static final Duration SHORTEST = Duration.ofMillis(1);

  private final Duration interval;
  private final Duration patience;

  private SnapshotPlan(Builder from) {
    super(from);
    this.interval = from.interval;
    this.patience = from.patience;
  }

  /**
   * Starts a plan.
   *
   * @param interval from the beginning of one snapshot to that of the next; the first is due after
   *     one
   * @param place the images' directory, of the same settings as the process, and with room for one
   *     image more than are kept
   * @return a builder
   * @throws IllegalArgumentException when the interval is less than a millisecond
   */
  public static Builder every(Duration interval, ImageStore place) {
    return new Builder(interval, place);
  }

  /**
   * From the beginning of one snapshot to that of the next.
   *
   * @return at least a millisecond
   */
  public Duration interval() {
    return interval;
  }

  /**
   * How long closing waits for a snapshot that is being made.
   *
   * @return a duration, zero for not at all
   */
  public Duration patience() {
    return patience;
  }

  /** Builds {@link SnapshotPlan}. Not for use by several threads. */
  public static final class Builder extends Plan.Builder<Builder> {

    private final Duration interval;
    private Duration patience = Duration.ofMinutes(10);

    private Builder(Duration interval, ImageStore place) {
      super(place);
      if (interval.compareTo(SHORTEST) < 0) {
        throw new IllegalArgumentException(
            "the interval of snapshots must be at least %s, not %s".formatted(SHORTEST, interval));
      }
      this.interval = interval;
    }

    @Override
    Builder self() {
      return this;
    }

    /**
     * Sets how long {@link RepeatedSnapshots#close()} waits for a snapshot that is being made.
     *
     * @param patience 10 minutes by default; zero does not wait
     * @return this builder
     * @throws IllegalArgumentException when it is negative
     */
    public Builder patience(Duration patience) {
      this.patience = Durations.notNegative("patience of a close", patience);
      return this;
    }

    /**
     * Takes the values as they are now; the builder may be used again.
     *
     * @return the plan
     */
    public SnapshotPlan build() {
      return new SnapshotPlan(this);
    }
  }
}
