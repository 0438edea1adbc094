package dev.gpuprocess.options;

import static java.util.Objects.requireNonNull;

import dev.gpuprocess.internal.text.Label;
import dev.gpuprocess.internal.time.Durations;
import java.time.Duration;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/** How a process is taken off its GPUs. Immutable. */
public final class SuspendOptions {

  private static final SuspendOptions DEFAULTS = new Builder().build();

  private final Builder set;

  private SuspendOptions(Builder set) {
    this.set = set;
  }

  /**
   * The lock timeout of the {@link Timeouts}, no deadline, no cancellation.
   *
   * @return the defaults
   */
  public static SuspendOptions ofDefaults() {
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
   * Starts from these options.
   *
   * @return a builder
   */
  public Builder toBuilder() {
    return set.copy();
  }

  /**
   * How long the lock waits for GPU work that is under way.
   *
   * @return empty for {@link Timeouts#lock()}
   */
  public Optional<Duration> lockTimeout() {
    return Optional.ofNullable(set.lockTimeout);
  }

  /**
   * The time of the whole operation.
   *
   * @return positive; by default longer than any operation
   */
  public Duration deadline() {
    return set.deadline;
  }

  /**
   * What ends the operation early.
   *
   * @return empty for nothing
   */
  public Optional<Cancellation> cancellation() {
    return Optional.ofNullable(set.cancellation);
  }

  /**
   * The label of the suspended process in the journal.
   *
   * @return empty for none
   */
  public Optional<String> label() {
    return Optional.ofNullable(set.label);
  }

  /** Builds {@link SuspendOptions}. Not for use by several threads. */
  public static final class Builder extends OptionsBuilder<Builder> {

    private @Nullable Duration lockTimeout;
    private Duration deadline = Durations.LONGEST;
    private @Nullable Cancellation cancellation;
    private @Nullable String label;

    private Builder() {}

    /**
     * Sets how long the lock waits for GPU work that is under way.
     *
     * @param time rounded up to milliseconds, at least one; with more than 24 days the driver is
     *     told to wait without a timeout; {@link Timeouts#lock()} by default
     * @return this builder
     * @throws IllegalArgumentException when it is negative
     */
    public Builder lockTimeout(Duration time) {
      this.lockTimeout = Durations.notNegative("timeout of a lock", time);
      return this;
    }

    /**
     * Sets the time of the whole operation. The lock waits no longer than this. When it passes
     * while the driver checkpoints, that is finished and then undone, because the driver's call
     * cannot be cut short: the operation takes that much longer, and throws {@link
     * dev.gpuprocess.error.OperationTimedOutException}.
     *
     * @param time {@code ChronoUnit.FOREVER.getDuration()}, the default, for no limit
     * @return this builder
     * @throws IllegalArgumentException unless it is positive
     */
    public Builder deadline(Duration time) {
      this.deadline = Durations.positive("deadline", time);
      return this;
    }

    /**
     * Sets what ends the operation early.
     *
     * @param by to be cancelled from another thread; none by default
     * @return this builder
     */
    public Builder cancellation(Cancellation by) {
      this.cancellation = requireNonNull(by, "by");
      return this;
    }

    /**
     * Sets the label of the suspended process in the journal, such as a name of the caller's own
     * for it. {@link dev.gpuprocess.GpuCheckpoints#suspended()} lists it, and a controller that
     * {@linkplain dev.gpuprocess.GpuCheckpoints#recover() recovers} the process finds it by {@link
     * dev.gpuprocess.GpuProcess#label()}. The journal keeps it while the process is suspended.
     *
     * @param label by default the label of the image that the process was restored from
     * @return this builder
     * @throws IllegalArgumentException when it is blank, has more than 200 characters, or contains
     *     control characters
     */
    public Builder label(String label) {
      this.label = Label.require(label);
      return this;
    }

    /**
     * Takes the values as they are now; the builder may be used again.
     *
     * @return the options
     */
    public SuspendOptions build() {
      return new SuspendOptions(copy());
    }
  }
}
