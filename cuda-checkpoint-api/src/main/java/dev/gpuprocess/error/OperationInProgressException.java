package dev.gpuprocess.error;

import org.jspecify.annotations.Nullable;

/** Another verb works on the same process right now. */
public class OperationInProgressException extends GpuCheckpointException {

  private static final long serialVersionUID = 1L;

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried, on whom, and what came of it
   * @param cause what was caught, or null
   */
  public OperationInProgressException(String message, Failure failure, @Nullable Throwable cause) {
    super(message, failure, cause);
  }

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried, on whom, and what came of it
   */
  public OperationInProgressException(String message, Failure failure) {
    this(message, failure, null);
  }
}
