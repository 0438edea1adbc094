package dev.gpuprocess.internal.engine;

import dev.gpuprocess.internal.time.Deadline;
import dev.gpuprocess.internal.time.Durations;
import dev.gpuprocess.options.Cancellation;
import dev.gpuprocess.options.ResumeOptions;
import dev.gpuprocess.options.Timeouts;
import java.time.Duration;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * How long a resume waits for the driver's restores: until its deadline, and for the time of a call
 * after a cancellation. A restore that works ends within that time, as a rule. Begins when it is
 * made. Safe for use by the threads of several members.
 */
public final class RestoreLimit {

  /** The time after which a wait for the driver notices a cancellation. */
  private static final Duration SLICE = Duration.ofMillis(100);

  private final Deadline deadline;
  private final Duration afterCancellation;
  private final Optional<Cancellation> cancellation;
  private @Nullable Deadline ofCancelled;

  /** Begins the time of a resume. */
  public RestoreLimit(ResumeOptions options, Timeouts timeouts) {
    this.deadline = Deadline.after(options.deadline());
    this.afterCancellation = timeouts.call();
    this.cancellation = options.cancellation();
  }

  /** Returns the limit of a restore that only the driver's own timeout ends. */
  static RestoreLimit none(Timeouts timeouts) {
    return new RestoreLimit(ResumeOptions.ofDefaults(), timeouts);
  }

  /** Returns the time that is left of the operation. */
  public Duration remaining() {
    return deadline.remaining();
  }

  /** Returns the time of the operation. */
  Duration total() {
    return deadline.total();
  }

  /** Returns how long to wait until {@link #slice} is called again; zero when the time is over. */
  synchronized Duration slice(Deadline transfer) {
    if (ofCancelled == null && cancellation.map(Cancellation::isCancelled).orElse(false)) {
      ofCancelled = Deadline.after(afterCancellation);
    }
    Duration left = Durations.min(transfer.remaining(), deadline.remaining());
    return Durations.min(
        SLICE, ofCancelled == null ? left : Durations.min(left, ofCancelled.remaining()));
  }

  /** Returns whether the time of the operation is over. */
  boolean passed() {
    return deadline.passed();
  }

  /** Returns whether the operation was cancelled, and has had the time to end. */
  synchronized boolean isCancelled() {
    return ofCancelled != null && ofCancelled.passed();
  }
}
