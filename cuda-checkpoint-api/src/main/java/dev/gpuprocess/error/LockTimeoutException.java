package dev.gpuprocess.error;

import org.jspecify.annotations.Nullable;

/** The GPU work of the process did not end within the timeout of the lock; the process runs on. */
public class LockTimeoutException extends RetryLaterException {

  private static final long serialVersionUID = 1L;

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   * @param cause what was caught, or null
   */
  public LockTimeoutException(String message, Failure failure, @Nullable Throwable cause) {
    super(message, failure, cause);
  }

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   */
  public LockTimeoutException(String message, Failure failure) {
    this(message, failure, null);
  }
}
