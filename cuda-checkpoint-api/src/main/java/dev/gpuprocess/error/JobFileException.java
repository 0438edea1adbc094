package dev.gpuprocess.error;

import org.jspecify.annotations.Nullable;

/**
 * The job file of driver 590 and later, which {@code CUDA_CHECKPOINT_JOB_FILE} names, cannot go
 * into an image, or cannot be put where the processes in the image expect it. Nothing was dumped or
 * restored.
 */
public class JobFileException extends FixAndRetryException {

  private static final long serialVersionUID = 1L;

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   * @param cause what was caught, or null
   */
  public JobFileException(String message, Failure failure, @Nullable Throwable cause) {
    super(message, failure, cause);
  }
}
