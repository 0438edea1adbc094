package dev.gpuprocess.error;

import org.jspecify.annotations.Nullable;

/** The pid that a restore needs belongs to another process. */
public class PidTakenException extends RetryLaterException {

  private static final long serialVersionUID = 1L;

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   * @param cause what was caught, or null
   */
  public PidTakenException(String message, Failure failure, @Nullable Throwable cause) {
    super(Reason.PID_TAKEN, message, failure, cause);
  }

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   */
  public PidTakenException(String message, Failure failure) {
    this(message, failure, null);
  }
}
