package dev.gpuprocess.options;

import static java.util.Objects.requireNonNull;

import dev.gpuprocess.internal.time.Durations;
import java.time.Duration;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/** How a process waits for its turn in a {@link dev.gpuprocess.GpuSlot}. Immutable. */
public final class TurnOptions {

  private static final TurnOptions DEFAULTS = new Builder().build();

  private final Builder set;

  private TurnOptions(Builder set) {
    this.set = set;
  }

  /**
   * Priority 0, no deadline, no cancellation.
   *
   * @return the defaults
   */
  public static TurnOptions ofDefaults() {
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
   * How urgent the process is.
   *
   * @return the greater, the more urgent
   */
  public int priority() {
    return set.priority;
  }

  /**
   * How long to wait, the swap included.
   *
   * @return positive; by default longer than any wait
   */
  public Duration deadline() {
    return set.deadline;
  }

  /**
   * What ends the wait early.
   *
   * @return empty for nothing
   */
  public Optional<Cancellation> cancellation() {
    return Optional.ofNullable(set.cancellation);
  }

  /** Builds {@link TurnOptions}. Not for use by several threads. */
  public static final class Builder extends OptionsBuilder<Builder> {

    private int priority;
    private Duration deadline = Durations.LONGEST;
    private @Nullable Cancellation cancellation;

    private Builder() {}

    /**
     * Sets how urgent the process is. A more urgent process gets its turn first, and takes the GPU
     * at once from a less urgent one. Processes of the same priority take turns in the order in
     * which they came, each for a quantum.
     *
     * @param priority the greater, the more urgent; 0 by default
     * @return this builder
     */
    public Builder priority(int priority) {
      this.priority = priority;
      return this;
    }

    /**
     * Sets how long to wait for the turn, the swap included.
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
     * Sets what ends the wait early.
     *
     * @param by to be cancelled from another thread; none by default
     * @return this builder
     */
    public Builder cancellation(Cancellation by) {
      this.cancellation = requireNonNull(by, "by");
      return this;
    }

    /**
     * Takes the values as they are now; the builder may be used again.
     *
     * @return the options
     */
    public TurnOptions build() {
      return new TurnOptions(copy());
    }
  }
}
