package dev.gpuprocess.error;

/** The driver answered with an error that has no exception type of its own. */
public class CudaDriverException extends ProcessUnfitException {

  private static final long serialVersionUID = 1L;

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   */
  public CudaDriverException(String message, Failure failure) {
    super(Reason.DRIVER_ERROR, message, failure, null);
  }
}
