package dev.gpuprocess.error;

import org.jspecify.annotations.Nullable;

/**
 * A process is there, but what {@code /proc} says of it cannot be read: this JVM has too many files
 * open, the machine is out of memory, or the rights are missing. Nothing is known of the process
 * then, least of all that it has ended.
 */
public class ProcessUnreadableException extends RetryLaterException {

  private static final long serialVersionUID = 1L;

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried, on whom, and what came of it
   * @param cause what was caught, or null
   */
  public ProcessUnreadableException(String message, Failure failure, @Nullable Throwable cause) {
    super(message, failure, cause);
  }

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried, on whom, and what came of it
   */
  public ProcessUnreadableException(String message, Failure failure) {
    this(message, failure, null);
  }
}
