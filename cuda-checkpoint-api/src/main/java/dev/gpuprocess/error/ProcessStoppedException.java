package dev.gpuprocess.error;

/** The process is stopped, traced or frozen; a driver call on it would hang until it continues. */
public class ProcessStoppedException extends FixAndRetryException {

  private static final long serialVersionUID = 1L;

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   */
  public ProcessStoppedException(String message, Failure failure) {
    super(Reason.PROCESS_STOPPED, message, failure, null);
  }
}
