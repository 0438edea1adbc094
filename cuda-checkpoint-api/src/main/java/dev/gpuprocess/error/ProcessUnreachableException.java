package dev.gpuprocess.error;

import org.jspecify.annotations.Nullable;

/**
 * The driver cannot reach the process although it is alive: permission is missing, or its CUDA
 * state is broken.
 */
public class ProcessUnreachableException extends FixAndRetryException {

  private static final long serialVersionUID = 1L;

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   * @param cause what was caught, or null
   */
  public ProcessUnreachableException(String message, Failure failure, @Nullable Throwable cause) {
    super(message, failure, cause);
  }

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   */
  public ProcessUnreachableException(String message, Failure failure) {
    this(message, failure, null);
  }
}
