package dev.gpuprocess.error;

import org.jspecify.annotations.Nullable;

/**
 * An operation was cancelled by {@link dev.gpuprocess.options.Cancellation}; {@link Failure#fate()}
 * is what became of the process.
 */
public class OperationCancelledException extends RetryLaterException {

  private static final long serialVersionUID = 1L;

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   * @param cause what was caught, or null
   */
  public OperationCancelledException(String message, Failure failure, @Nullable Throwable cause) {
    super(Reason.OPERATION_CANCELLED, message, failure, cause);
  }

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   */
  public OperationCancelledException(String message, Failure failure) {
    this(message, failure, null);
  }
}
