package dev.gpuprocess.internal.proc;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.RetryLaterException;
import org.jspecify.annotations.Nullable;

/**
 * A process exists, but {@code /proc} cannot be read for it: this JVM has too many files open, the
 * machine is out of memory, or permission is missing. Nothing is known about the process then; in
 * particular, it may not have ended.
 */
public class ProcessUnreadableException extends RetryLaterException {

  private static final long serialVersionUID = 1L;

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   * @param cause what was caught, or null
   */
  public ProcessUnreadableException(String message, Failure failure, @Nullable Throwable cause) {
    super(Reason.PROCESS_UNREADABLE, message, failure, cause);
  }

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   */
  public ProcessUnreadableException(String message, Failure failure) {
    this(message, failure, null);
  }
}
