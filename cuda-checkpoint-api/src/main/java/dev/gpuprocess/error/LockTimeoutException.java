package dev.gpuprocess.error;

import org.jspecify.annotations.Nullable;

/** The process had GPU work under way for longer than the lock was to wait; it runs on. */
public class LockTimeoutException extends RetryLaterException {

  private static final long serialVersionUID = 1L;

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried, on whom, and what came of it
   * @param cause what was caught, or null
   */
  public LockTimeoutException(String message, Failure failure, @Nullable Throwable cause) {
    super(message, failure, cause);
  }

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried, on whom, and what came of it
   */
  public LockTimeoutException(String message, Failure failure) {
    this(message, failure, null);
  }
}
