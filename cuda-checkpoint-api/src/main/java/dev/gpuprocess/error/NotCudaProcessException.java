package dev.gpuprocess.error;

/** The process has no CUDA state: it never called cuInit, or is not a CUDA program at all. */
public class NotCudaProcessException extends ProcessUnfitException {

  private static final long serialVersionUID = 1L;

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   */
  public NotCudaProcessException(String message, Failure failure) {
    super(Reason.NOT_CUDA, message, failure, null);
  }
}
