package dev.gpuprocess.error;

import org.jspecify.annotations.Nullable;

/**
 * The operation is not possible now, but the same call may succeed later: the process is as it was
 * before, or as the message says. Try again later.
 */
public abstract class RetryLaterException extends GpuCheckpointException {

  private static final long serialVersionUID = 1L;

  /**
   * An error with its data and its cause.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   * @param cause what was caught, or null
   */
  protected RetryLaterException(String message, Failure failure, @Nullable Throwable cause) {
    super(message, failure, cause);
  }
}
