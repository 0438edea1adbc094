package dev.gpuprocess.error;

import org.jspecify.annotations.Nullable;

/**
 * This process cannot be suspended, or cannot be brought back, however often it is tried: give it
 * up.
 */
public abstract class ProcessUnfitException extends GpuCheckpointException {

  private static final long serialVersionUID = 1L;

  /**
   * An error with its data.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   */
  protected ProcessUnfitException(String message, Failure failure) {
    super(message, failure, null);
  }

  /**
   * An error with its data and its cause.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   * @param cause what was caught, or null
   */
  protected ProcessUnfitException(String message, Failure failure, @Nullable Throwable cause) {
    super(message, failure, cause);
  }
}
