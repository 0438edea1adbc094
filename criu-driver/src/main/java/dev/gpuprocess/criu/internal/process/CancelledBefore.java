package dev.gpuprocess.criu.internal.process;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.Fate;
import dev.gpuprocess.error.OperationCancelledException;
import dev.gpuprocess.options.Cancellation;
import java.time.Duration;
import java.util.Optional;

/** Refuses a request to CRIU that was cancelled before it was made. */
public final class CancelledBefore {

  private CancelledBefore() {}

  /**
   * Checks that it was not.
   *
   * @param subject the request in words, such as {@code dump of process 7}
   * @param fate of a process that nothing was done to
   * @throws OperationCancelledException when it was; CRIU was not started
   */
  public static void require(
      Optional<Cancellation> cancellation, String operation, String subject, int pid, Fate fate) {
    if (cancellation.map(Cancellation::isCancelled).orElse(false)) {
      throw new OperationCancelledException(
          subject + " was cancelled before it began: CRIU was not started, and nothing was touched",
          new Failure(operation, pid, null, null, Duration.ZERO, null, fate));
    }
  }
}
