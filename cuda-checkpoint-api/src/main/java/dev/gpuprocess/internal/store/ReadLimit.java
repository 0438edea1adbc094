package dev.gpuprocess.internal.store;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.OperationCancelledException;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.options.Cancellation;
import java.time.Duration;
import org.jspecify.annotations.Nullable;

/**
 * For how long an image is read. Large ones take minutes, and sparse ones of a few bytes can be
 * made to take days, so whoever reads looks here every some hundred KiB. May be shared between
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

  /** As long as it takes. */
  static ReadLimit unlimited(String operation, int pid) {
    return new ReadLimit(operation, pid, null, Long.MAX_VALUE);
  }

  /**
   * Until a deadline, or a cancellation.
   *
   * @param operation named in exceptions
   * @param pid named in exceptions
   * @param deadline from now on
   * @param cancellation null for none
   * @return the limit
   */
  public static ReadLimit within(
      String operation, int pid, Duration deadline, @Nullable Cancellation cancellation) {
    long nanos;
    try {
      nanos = deadline.toNanos();
    } catch (ArithmeticException forEver) {
      nanos = Long.MAX_VALUE;
    }
    return new ReadLimit(operation, pid, cancellation, nanos);
  }

  /** Throws when it is time to stop. */
  public void requireTime() {
    if (cancellation != null && cancellation.isCancelled()) {
      throw new OperationCancelledException(
          "%s of the image of process %s was cancelled while the image was being verified; nothing was restored"
              .formatted(operation, pid),
          Failure.of(operation, pid));
    }
    if (System.nanoTime() - begin > nanos) {
      throw new OperationTimedOutException(
          "%s of the image of process %s did not begin: the image could not be verified in the %s that there were; give it more time"
              .formatted(operation, pid, Duration.ofNanos(nanos)),
          Failure.of(operation, pid));
    }
  }
}
