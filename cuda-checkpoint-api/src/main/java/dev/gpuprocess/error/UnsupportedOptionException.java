package dev.gpuprocess.error;

/** An option is set that this CRIU driver cannot pass on to CRIU. Nothing was touched. */
public class UnsupportedOptionException extends FixAndRetryException {

  private static final long serialVersionUID = 1L;

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   */
  public UnsupportedOptionException(String message, Failure failure) {
    super(Reason.UNSUPPORTED_OPTION, message, failure, null);
  }
}
