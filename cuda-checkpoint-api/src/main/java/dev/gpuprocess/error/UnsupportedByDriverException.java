package dev.gpuprocess.error;

/** The process uses something that the driver cannot checkpoint, such as managed memory. */
public class UnsupportedByDriverException extends ProcessUnfitException {

  private static final long serialVersionUID = 1L;

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   */
  public UnsupportedByDriverException(String message, Failure failure) {
    super(Reason.UNSUPPORTED_BY_DRIVER, message, failure, null);
  }
}
