package dev.gpuprocess.error;

import org.jspecify.annotations.Nullable;

/** An option that this way of reaching CRIU cannot pass on. Nothing was touched. */
public class UnsupportedOptionException extends FixAndRetryException {

  private static final long serialVersionUID = 1L;

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried, on whom, and what came of it
   * @param cause what was caught, or null
   */
  public UnsupportedOptionException(String message, Failure failure, @Nullable Throwable cause) {
    super(message, failure, cause);
  }

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried, on whom, and what came of it
   */
  public UnsupportedOptionException(String message, Failure failure) {
    this(message, failure, null);
  }
}
