package dev.gpuprocess.error;

/**
 * The state object is out of date: its process has moved on. {@link
 * dev.gpuprocess.GpuProcess#inspect} returns the current one.
 */
public class StaleStateException extends FixAndRetryException {

  private static final long serialVersionUID = 1L;

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   */
  public StaleStateException(String message, Failure failure) {
    super(Reason.STALE_STATE, message, failure, null);
  }
}
