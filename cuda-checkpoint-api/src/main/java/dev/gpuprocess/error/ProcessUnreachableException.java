package dev.gpuprocess.error;

/**
 * The driver cannot reach the process although it is alive: permission is missing, or its CUDA
 * state is broken.
 */
public class ProcessUnreachableException extends FixAndRetryException {

  private static final long serialVersionUID = 1L;

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   */
  public ProcessUnreachableException(String message, Failure failure) {
    super(Reason.PROCESS_UNREACHABLE, message, failure, null);
  }
}
