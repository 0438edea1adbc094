package dev.gpuprocess.error;

import org.jspecify.annotations.Nullable;

/** The driver answered with an error that has no exception type of its own. */
public class CudaDriverException extends ProcessUnfitException {

  private static final long serialVersionUID = 1L;

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   * @param cause what was caught, or null
   */
  public CudaDriverException(String message, Failure failure, @Nullable Throwable cause) {
    super(message, failure, cause);
  }

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   */
  public CudaDriverException(String message, Failure failure) {
    this(message, failure, null);
  }
}
