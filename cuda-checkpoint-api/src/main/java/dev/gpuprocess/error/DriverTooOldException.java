package dev.gpuprocess.error;

import org.jspecify.annotations.Nullable;

/** The driver lacks a function that this library needs. */
public class DriverTooOldException extends MachineUnfitException {

  private static final long serialVersionUID = 1L;

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   * @param cause what was caught, or null
   */
  public DriverTooOldException(String message, Failure failure, @Nullable Throwable cause) {
    super(message, failure, cause);
  }
}
