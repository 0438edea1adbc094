package dev.gpuprocess.error;

import org.jspecify.annotations.Nullable;

/** A GPU pair names a GPU that the process does not use or that this machine does not have. */
public class UnknownGpuException extends FixAndRetryException {

  private static final long serialVersionUID = 1L;

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried, on whom, and what came of it
   * @param cause what was caught, or null
   */
  public UnknownGpuException(String message, Failure failure, @Nullable Throwable cause) {
    super(message, failure, cause);
  }

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried, on whom, and what came of it
   */
  public UnknownGpuException(String message, Failure failure) {
    this(message, failure, null);
  }
}
