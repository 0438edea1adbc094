package dev.gpuprocess.error;

import org.jspecify.annotations.Nullable;

/** An operation did not end within its deadline; the message says what became of the process. */
public class OperationTimedOutException extends RetryLaterException {

  private static final long serialVersionUID = 1L;

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   * @param cause what was caught, or null
   */
  public OperationTimedOutException(String message, Failure failure, @Nullable Throwable cause) {
    super(Reason.OPERATION_TIMED_OUT, message, failure, cause);
  }

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   */
  public OperationTimedOutException(String message, Failure failure) {
    this(message, failure, null);
  }
}
