package dev.gpuprocess.error;

import org.jspecify.annotations.Nullable;

/** The CRIU found does not work on this kernel. */
public class CriuTooOldException extends MachineUnfitException {

  private static final long serialVersionUID = 1L;

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   * @param cause what was caught, or null
   */
  public CriuTooOldException(String message, Failure failure, @Nullable Throwable cause) {
    super(message, failure, cause);
  }

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   */
  public CriuTooOldException(String message, Failure failure) {
    this(message, failure, null);
  }
}
