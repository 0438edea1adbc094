package dev.gpuprocess.error;

import org.jspecify.annotations.Nullable;

/** The GPU has no room for what the process held; a restore now would lose the process. */
public class InsufficientGpuMemoryException extends GpuCheckpointException {

  private static final long serialVersionUID = 1L;

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried, on whom, and what came of it
   * @param cause what was caught, or null
   */
  public InsufficientGpuMemoryException(
      String message, Failure failure, @Nullable Throwable cause) {
    super(message, failure, cause);
  }

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried, on whom, and what came of it
   */
  public InsufficientGpuMemoryException(String message, Failure failure) {
    this(message, failure, null);
  }
}
