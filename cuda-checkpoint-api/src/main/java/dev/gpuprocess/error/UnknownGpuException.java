package dev.gpuprocess.error;

/** A GPU pair names a GPU that this machine does not have or that the process does not use. */
public class UnknownGpuException extends FixAndRetryException {

  private static final long serialVersionUID = 1L;

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   */
  public UnknownGpuException(String message, Failure failure) {
    super(Reason.UNKNOWN_GPU, message, failure, null);
  }
}
