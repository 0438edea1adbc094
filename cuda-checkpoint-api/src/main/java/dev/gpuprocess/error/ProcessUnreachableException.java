package dev.gpuprocess.error;

import org.jspecify.annotations.Nullable;

/** The driver cannot reach a process that is alive: no permission, or its CUDA state is broken. */
public class ProcessUnreachableException extends FixAndRetryException {

  private static final long serialVersionUID = 1L;

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried, on whom, and what came of it
   * @param cause what was caught, or null
   */
  public ProcessUnreachableException(String message, Failure failure, @Nullable Throwable cause) {
    super(message, failure, cause);
  }

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried, on whom, and what came of it
   */
  public ProcessUnreachableException(String message, Failure failure) {
    this(message, failure, null);
  }
}
