package dev.gpuprocess.error;

/** The process is in a state in which the verb is not legal. */
public class WrongStateException extends FixAndRetryException {

  private static final long serialVersionUID = 1L;

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   */
  public WrongStateException(String message, Failure failure) {
    super(Reason.WRONG_STATE, message, failure, null);
  }
}
