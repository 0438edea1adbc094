package dev.gpuprocess.error;

import org.jspecify.annotations.Nullable;

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
   * @param cause what was caught, or null
   */
  public StaleStateException(String message, Failure failure, @Nullable Throwable cause) {
    super(message, failure, cause);
  }

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   */
  public StaleStateException(String message, Failure failure) {
    this(message, failure, null);
  }
}
