package dev.gpuprocess.error;

import org.jspecify.annotations.Nullable;

/**
 * The operation is not possible now, but the same call may succeed later: the process is as it was
 * before, or as the message says. Try again later.
 */
public abstract class RetryLaterException extends GpuCheckpointException {

  private static final long serialVersionUID = 1L;

  /** Why the operation is not possible now; one for each type of this group. */
  public enum Reason implements GpuCheckpointException.Reason {
    /** The GPU work of the process did not end within the timeout of the lock. */
    LOCK_TIMEOUT,

    /** Another operation is working on the same process. */
    OPERATION_IN_PROGRESS,

    /** The caller cancelled the operation. */
    OPERATION_CANCELLED,

    /** The operation did not end within its deadline. */
    OPERATION_TIMED_OUT,

    /** The pid that a restore needs belongs to another process. */
    PID_TAKEN,

    /** The process exists, but {@code /proc} cannot be read for it. */
    PROCESS_UNREADABLE
  }

  /**
   * An error with its data and its cause.
   *
   * @param reason why the operation is not possible now
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   * @param cause what was caught, or null
   */
  protected RetryLaterException(
      GpuCheckpointException.Reason reason,
      String message,
      Failure failure,
      @Nullable Throwable cause) {
    super(reason, message, failure, cause);
  }
}
