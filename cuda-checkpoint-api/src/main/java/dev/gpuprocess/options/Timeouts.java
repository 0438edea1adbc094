package dev.gpuprocess.options;

import dev.gpuprocess.internal.time.Durations;
import java.time.Duration;

/** How long driver calls may take. Immutable. Any duration is allowed, however long. */
public final class Timeouts {

  private static final Timeouts DEFAULTS = new Builder().build();

  private final Builder set;

  private Timeouts(Builder set) {
    this.set = set;
  }

  /**
   * Timeouts that suit most machines: 10 seconds for locks and other calls, 10 minutes for moving
   * memory, 30 seconds for memory to come free.
   *
   * @return the defaults
   */
  public static Timeouts ofDefaults() {
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
   * Starts from these timeouts.
   *
   * @return a builder
   */
  public Builder toBuilder() {
    return set.copy();
  }

  /**
   * How long a lock waits for GPU work when the caller does not say.
   *
   * @return positive
   */
  public Duration lock() {
    return set.lock;
  }

  /**
   * How long a driver call that moves no memory may take before it is abandoned; a lock gets this
   * in addition to its own timeout.
   *
   * @return positive
   */
  public Duration call() {
    return set.call;
  }

  /**
   * How long a driver call that moves memory may take before it is abandoned.
   *
   * @return positive
   */
  public Duration transfer() {
    return set.transfer;
  }

  /**
   * How long {@link dev.gpuprocess.CheckpointedProcess#close()} waits until the GPU has enough free
   * memory.
   *
   * @return zero does not wait
   */
  public Duration memory() {
    return set.memory;
  }

  @Override
  public String toString() {
    return "Timeouts[lock=%s, call=%s, transfer=%s, memory=%s]"
        .formatted(lock(), call(), transfer(), memory());
  }

  /** Builds {@link Timeouts}. Not for use by several threads. */
  public static final class Builder extends OptionsBuilder<Builder> {

    private Duration lock = Duration.ofSeconds(10);
    private Duration call = Duration.ofSeconds(10);
    private Duration transfer = Duration.ofMinutes(10);
    private Duration memory = Duration.ofSeconds(30);

    private Builder() {}

    /**
     * How long a lock waits for GPU work when the caller does not say.
     *
     * @param lock 10 seconds by default
     * @return this builder
     * @throws IllegalArgumentException unless it is positive
     */
    public Builder lock(Duration lock) {
      this.lock = Durations.positive("timeout of a lock", lock);
      return this;
    }

    /**
     * How long a driver call that moves no memory may take before it is abandoned.
     *
     * @param call 10 seconds by default
     * @return this builder
     * @throws IllegalArgumentException unless it is positive
     */
    public Builder call(Duration call) {
      this.call = Durations.positive("timeout of a call", call);
      return this;
    }

    /**
     * How long a driver call that moves memory may take before it is abandoned.
     *
     * @param transfer 10 minutes by default
     * @return this builder
     * @throws IllegalArgumentException unless it is positive
     */
    public Builder transfer(Duration transfer) {
      this.transfer = Durations.positive("timeout of a transfer", transfer);
      return this;
    }

    /**
     * How long closing a checkpointed process waits until the GPU has enough free memory.
     *
     * @param memory 30 seconds by default; zero does not wait
     * @return this builder
     * @throws IllegalArgumentException when it is negative
     */
    public Builder memory(Duration memory) {
      this.memory = Durations.notNegative("time to wait for GPU memory", memory);
      return this;
    }

    /**
     * Takes the values as they are now; the builder may be used again.
     *
     * @return the timeouts
     */
    public Timeouts build() {
      return new Timeouts(copy());
    }
  }
}
