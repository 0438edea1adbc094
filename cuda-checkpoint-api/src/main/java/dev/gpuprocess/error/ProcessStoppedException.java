package dev.gpuprocess.error;

import org.jspecify.annotations.Nullable;

/** The process is stopped, traced or frozen; a driver call on it would hang until it continues. */
public class ProcessStoppedException extends FixAndRetryException {

  private static final long serialVersionUID = 1L;

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   * @param cause what was caught, or null
   */
  public ProcessStoppedException(String message, Failure failure, @Nullable Throwable cause) {
    super(message, failure, cause);
  }

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   */
  public ProcessStoppedException(String message, Failure failure) {
    this(message, failure, null);
  }
}
