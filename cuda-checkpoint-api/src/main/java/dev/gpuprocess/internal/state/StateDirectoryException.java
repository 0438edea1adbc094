package dev.gpuprocess.internal.state;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.FixAndRetryException;
import org.jspecify.annotations.Nullable;

/**
 * The state directory cannot be used: it is full, not writable, or others could change what is in
 * it. Name another one in {@code GPUPROCESS_STATE_DIR}.
 */
public class StateDirectoryException extends FixAndRetryException {

  private static final long serialVersionUID = 1L;

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   * @param cause what was caught, or null
   */
  public StateDirectoryException(String message, Failure failure, @Nullable Throwable cause) {
    super(Reason.STATE_DIRECTORY, message, failure, cause);
  }
}
