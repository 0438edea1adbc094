package dev.gpuprocess.error;

/** A child of the process still holds the GPU, so the tree cannot be dumped. */
public class CudaChildException extends FixAndRetryException {

  private static final long serialVersionUID = 1L;

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   */
  public CudaChildException(String message, Failure failure) {
    super(Reason.CUDA_CHILD, message, failure, null);
  }
}
