package dev.gpuprocess.error;

import org.jspecify.annotations.Nullable;

/**
 * The process does not exist: it never existed, it has ended, or its pid belongs to another process
 * now.
 */
public class NoSuchProcessException extends ProcessUnfitException {

  private static final long serialVersionUID = 1L;

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   * @param cause what was caught, or null
   */
  public NoSuchProcessException(String message, Failure failure, @Nullable Throwable cause) {
    super(Reason.NO_SUCH_PROCESS, message, failure, cause);
  }

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   */
  public NoSuchProcessException(String message, Failure failure) {
    this(message, failure, null);
  }
}
