package dev.gpuprocess.error;

/** The CRIU found does not work on this kernel. */
public class CriuTooOldException extends MachineUnfitException {

  private static final long serialVersionUID = 1L;

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   */
  public CriuTooOldException(String message, Failure failure) {
    super(message, failure, null);
  }
}
