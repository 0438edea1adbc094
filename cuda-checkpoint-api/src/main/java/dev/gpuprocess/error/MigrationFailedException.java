package dev.gpuprocess.error;

import org.jspecify.annotations.Nullable;

/**
 * A process could not be moved to another host: that host was not reached, went away, refused it or
 * sent something wrong. At the sender the process is where it was, checkpointed, and nothing of it
 * runs or is left on the other host. At the receiver nothing is left of what had come.
 */
public class MigrationFailedException extends RetryLaterException {

  private static final long serialVersionUID = 1L;

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   * @param cause what was caught, or null
   */
  public MigrationFailedException(String message, Failure failure, @Nullable Throwable cause) {
    super(message, failure, cause);
  }
}
