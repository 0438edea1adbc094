package dev.gpuprocess.internal.store;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.OperationCancelledException;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.internal.time.Durations;
import dev.gpuprocess.options.Cancellation;
import java.time.Duration;
import org.jspecify.annotations.Nullable;

/**
 * How long an image may be read. Large images take minutes, and sparse ones of a few blocks can be
 * made to take days, so readers check this every few hundred KiB. Immutable; may be shared between
 * threads.
 */
public final class ReadLimit {

  private final String operation;
  private final int pid;
  private final @Nullable Cancellation cancellation;
  private final long begin = System.nanoTime();
  private final long nanos;

  private ReadLimit(String operation, int pid, @Nullable Cancellation cancellation, long nanos) {
    this.operation = operation;
    this.pid = pid;
    this.cancellation = cancellation;
    this.nanos = nanos;
  }

  /** No limit. */
  static ReadLimit unlimited(String operation, int pid) {
    return unlimited(operation, pid, null);
  }

  /** No limit but a cancellation. */
  public static ReadLimit unlimited(
      String operation, int pid, @Nullable Cancellation cancellation) {
    return new ReadLimit(operation, pid, cancellation, Long.MAX_VALUE);
  }

  /**
   * A limit by a deadline and a cancellation.
   *
   * @param operation named in exceptions
   * @param pid named in exceptions
   * @param deadline from now on
   * @param cancellation null for none
   * @return the limit
   */
  public static ReadLimit within(
      String operation, int pid, Duration deadline, @Nullable Cancellation cancellation) {
    return new ReadLimit(operation, pid, cancellation, Durations.nanos(deadline));
  }

  /**
   * Checks the limit.
   *
   * @throws OperationCancelledException when the operation was cancelled
   * @throws OperationTimedOutException when the time is up
   */
  public void requireTime() {
    if (cancellation != null && cancellation.isCancelled()) {
      throw new OperationCancelledException(
          "%s of the image of process %s was cancelled while the image was being read; the image is as it was"
              .formatted(operation, pid),
          Failure.of(operation, pid));
    }
    if (System.nanoTime() - begin > nanos) {
      throw new OperationTimedOutException(
          "%s of the image of process %s did not begin, because verifying the image took longer than the %s available: allow more time"
              .formatted(operation, pid, Duration.ofNanos(nanos)),
          Failure.of(operation, pid));
    }
  }
}
