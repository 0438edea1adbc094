package dev.gpuprocess.error;

import org.jspecify.annotations.Nullable;

/**
 * Something has to be fixed first: a directory, an option, a permission or the state of the
 * process, which the message names. Then try again.
 */
public abstract class FixAndRetryException extends GpuCheckpointException {

  private static final long serialVersionUID = 1L;

  /**
   * An error with its data and its cause.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   * @param cause what was caught, or null
   */
  protected FixAndRetryException(String message, Failure failure, @Nullable Throwable cause) {
    super(message, failure, cause);
  }
}
