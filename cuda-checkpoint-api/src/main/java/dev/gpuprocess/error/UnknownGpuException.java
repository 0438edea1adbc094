package dev.gpuprocess.error;

import org.jspecify.annotations.Nullable;

/** A GPU pair names a GPU that this machine does not have or that the process does not use. */
public class UnknownGpuException extends FixAndRetryException {

  private static final long serialVersionUID = 1L;

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   * @param cause what was caught, or null
   */
  public UnknownGpuException(String message, Failure failure, @Nullable Throwable cause) {
    super(message, failure, cause);
  }

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   */
  public UnknownGpuException(String message, Failure failure) {
    this(message, failure, null);
  }
}
