package dev.gpuprocess.error;

/** The GPU work of the process did not end within the timeout of the lock; the process runs on. */
public class LockTimeoutException extends RetryLaterException {

  private static final long serialVersionUID = 1L;

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   */
  public LockTimeoutException(String message, Failure failure) {
    super(Reason.LOCK_TIMEOUT, message, failure, null);
  }
}
