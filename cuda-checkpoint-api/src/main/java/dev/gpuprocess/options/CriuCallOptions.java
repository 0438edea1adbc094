package dev.gpuprocess.options;

import dev.gpuprocess.internal.time.Durations;
import java.time.Duration;
import java.util.Optional;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/** What dumps and restores have in common. Immutable. */
public abstract sealed class CriuCallOptions permits DumpOptions, RestoreOptions {

  private final Builder<?> set;

  CriuCallOptions(Builder<?> set) {
    this.set = set;
  }

  /** {@return CRIU's own switches} */
  public final CriuOptions criu() {
    return set.criu;
  }

  /** {@return whether the tasks end up stopped} */
  public final boolean leaveStopped() {
    return set.leaveStopped;
  }

  /** {@return how long CRIU may take before it is killed} */
  public final Duration deadline() {
    return set.deadline;
  }

  /** {@return what ends the call early} */
  public final Optional<Cancellation> cancellation() {
    return Optional.ofNullable(set.cancellation);
  }

  /**
   * Builds what dumps and restores have in common.
   *
   * @param <B> the builder's own type
   */
  public abstract static sealed class Builder<B extends Builder<B>> extends OptionsBuilder<B>
      permits DumpOptions.Builder, RestoreOptions.Builder {

    private CriuOptions criu = CriuOptions.ofDefaults();
    private boolean leaveStopped;
    private Duration deadline = Duration.ofMinutes(10);
    private @Nullable Cancellation cancellation;

    Builder() {}

    abstract B self();

    /**
     * CRIU's own switches.
     *
     * @param criu the new value; {@link CriuOptions#ofDefaults()} by default
     * @return this builder
     */
    public final B criu(CriuOptions criu) {
      this.criu = criu;
      return self();
    }

    /**
     * Changes CRIU's own switches, such as {@code criu(criu -> criu.tcpEstablished(true))}.
     *
     * @param change sets what differs from what was set before
     * @return this builder
     * @throws IllegalStateException when two of them exclude each other; the message names both
     */
    public final B criu(Consumer<CriuOptions.Builder> change) {
      CriuOptions.Builder changed = criu.toBuilder();
      change.accept(changed);
      return criu(changed.build());
    }

    /**
     * Whether the tasks end up stopped, until they get a SIGCONT (CRIU {@code leave-stopped}).
     *
     * @param leaveStopped the new value; false by default
     * @return this builder
     */
    public final B leaveStopped(boolean leaveStopped) {
      this.leaveStopped = leaveStopped;
      return self();
    }

    /**
     * How long CRIU may take before it is killed and the call throws {@link
     * dev.gpuprocess.error.OperationTimedOutException}.
     *
     * @param deadline the new value; 10 minutes by default
     * @return this builder
     * @throws IllegalArgumentException unless it is positive
     */
    public final B deadline(Duration deadline) {
      this.deadline = Durations.positive("deadline", deadline);
      return self();
    }

    /**
     * Sets what ends the call early.
     *
     * @param cancellation the new value; nothing by default
     * @return this builder
     */
    public final B cancellation(Cancellation cancellation) {
      this.cancellation = cancellation;
      return self();
    }
  }
}
