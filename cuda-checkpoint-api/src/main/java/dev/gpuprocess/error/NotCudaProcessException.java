package dev.gpuprocess.error;

import org.jspecify.annotations.Nullable;

/** The process has no CUDA state: it never called cuInit, or is not a CUDA program at all. */
public class NotCudaProcessException extends ProcessUnfitException {

  private static final long serialVersionUID = 1L;

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   * @param cause what was caught, or null
   */
  public NotCudaProcessException(String message, Failure failure, @Nullable Throwable cause) {
    super(message, failure, cause);
  }

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   */
  public NotCudaProcessException(String message, Failure failure) {
    this(message, failure, null);
  }
}
