package dev.gpuprocess.error;

import org.jspecify.annotations.Nullable;

/**
 * Something has to be put right first, which the message names: a directory, an option, a right,
 * the state of the process. Then try again.
 */
public abstract class FixAndRetryException extends GpuCheckpointException {

  private static final long serialVersionUID = 1L;

  /**
   * An error with its data.
   *
   * @param message one sentence
   * @param failure what was tried, on whom, and what came of it
   */
  protected FixAndRetryException(String message, Failure failure) {
    super(message, failure);
  }

  /**
   * An error with its data and its cause.
   *
   * @param message one sentence
   * @param failure what was tried, on whom, and what came of it
   * @param cause what was caught, or null
   */
  protected FixAndRetryException(String message, Failure failure, @Nullable Throwable cause) {
    super(message, failure, cause);
  }
}
