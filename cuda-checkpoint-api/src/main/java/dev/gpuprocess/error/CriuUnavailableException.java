package dev.gpuprocess.error;

import org.jspecify.annotations.Nullable;

/** There is no CRIU on this machine that can be started. */
public class CriuUnavailableException extends MachineUnfitException {

  private static final long serialVersionUID = 1L;

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   * @param cause what was caught, or null
   */
  public CriuUnavailableException(String message, Failure failure, @Nullable Throwable cause) {
    super(message, failure, cause);
  }

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   */
  public CriuUnavailableException(String message, Failure failure) {
    this(message, failure, null);
  }
}
