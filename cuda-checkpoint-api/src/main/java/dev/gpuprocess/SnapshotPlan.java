package dev.gpuprocess;

import static java.util.Objects.requireNonNull;

import dev.gpuprocess.internal.time.Durations;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.RetentionPolicy;
import java.time.Duration;

/** How often snapshots are made, where to, and which of them stay. Immutable. */
public final class SnapshotPlan {

  private static final Duration SHORTEST = Duration.ofMillis(1);

  private final Duration interval;
  private final ImageStore place;
  private final RetentionPolicy retention;
  private final DumpOptions options;
  private final SnapshotListener listener;
  private final Duration patience;

  private SnapshotPlan(Builder from) {
    this.interval = from.interval;
    this.place = from.place;
    this.retention = from.retention;
    this.options = from.options;
    this.listener = from.listener;
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
   * Where the images are.
   *
   * @return their store
   */
  public ImageStore place() {
    return place;
  }

  /**
   * Which images stay.
   *
   * @return applied after each image that is made
   */
  public RetentionPolicy retention() {
    return retention;
  }

  /**
   * How each image is made.
   *
   * @return the options of each snapshot
   */
  public DumpOptions options() {
    return options;
  }

  /**
   * Who is told.
   *
   * @return the listener
   */
  public SnapshotListener listener() {
    return listener;
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
  public static final class Builder {

    private final Duration interval;
    private final ImageStore place;
    private RetentionPolicy retention = RetentionPolicy.ofDefaults();
    private DumpOptions options = DumpOptions.ofDefaults();
    private SnapshotListener listener = SnapshotListener.NONE;
    private Duration patience = Duration.ofMinutes(10);

    private Builder(Duration interval, ImageStore place) {
      if (interval.compareTo(SHORTEST) < 0) {
        throw new IllegalArgumentException(
            "the interval of snapshots must be at least %s, not %s".formatted(SHORTEST, interval));
      }
      this.interval = interval;
      this.place = requireNonNull(place, "place");
    }

    /**
     * Sets which images stay.
     *
     * @param policy by default {@link RetentionPolicy#ofDefaults()}
     * @return this builder
     */
    public Builder retention(RetentionPolicy policy) {
      this.retention = requireNonNull(policy, "policy");
      return this;
    }

    /**
     * Sets how each image is made.
     *
     * @param options by default {@link DumpOptions#ofDefaults()}
     * @return this builder
     */
    public Builder options(DumpOptions options) {
      this.options = requireNonNull(options, "options");
      return this;
    }

    /**
     * Sets who is told of each snapshot.
     *
     * @param listener by default nobody
     * @return this builder
     */
    public Builder listener(SnapshotListener listener) {
      this.listener = requireNonNull(listener, "listener");
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
