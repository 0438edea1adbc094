package dev.gpuprocess.internal.savearea;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.OperationCancelledException;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.internal.text.Printable;
import dev.gpuprocess.internal.time.Durations;
import dev.gpuprocess.options.Cancellation;
import java.time.Duration;
import org.jspecify.annotations.Nullable;

/** How long the memory of a process may be copied. Immutable; safe for use by several threads. */
public final class CopyLimit {

  private final int pid;
  private final Duration time;
  private final long end;
  private final @Nullable Cancellation cancellation;

  /**
   * A limit that begins to run now.
   *
   * @param pid named in exceptions
   * @param cancellation null for none
   */
  public CopyLimit(int pid, Duration time, @Nullable Cancellation cancellation) {
    this.pid = pid;
    this.time = time;
    this.end = Durations.end(time);
    this.cancellation = cancellation;
  }

  /**
   * Checks it.
   *
   * @throws OperationCancelledException when the dump was cancelled
   * @throws OperationTimedOutException when the time is up
   */
  void requireTime() {
    if (cancellation != null && cancellation.isCancelled()) {
      throw new OperationCancelledException(
          "the dump of process %s was cancelled while its memory was copied into the image"
              .formatted(pid),
          Failure.of("dump", pid));
    }
    if (Durations.left(end) <= 0) {
      throw new OperationTimedOutException(
          "the dump of process %s was given up while its memory was copied into the image, as it may take no longer than %s: allow more time, or use a faster disk"
              .formatted(pid, Printable.of(time)),
          Failure.of("dump", pid));
    }
  }
}
