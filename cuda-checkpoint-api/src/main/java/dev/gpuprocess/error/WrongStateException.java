package dev.gpuprocess.error;

import org.jspecify.annotations.Nullable;

/** The process is in a state in which the verb is not legal. */
public class WrongStateException extends FixAndRetryException {

  private static final long serialVersionUID = 1L;

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   * @param cause what was caught, or null
   */
  public WrongStateException(String message, Failure failure, @Nullable Throwable cause) {
    super(message, failure, cause);
  }

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   */
  public WrongStateException(String message, Failure failure) {
    this(message, failure, null);
  }
}
