package dev.gpuprocess.error;

import org.jspecify.annotations.Nullable;

/** The file system has no room for the image. */
public class DiskFullException extends ImageException {

  private static final long serialVersionUID = 1L;

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   * @param cause what was caught, or null
   */
  public DiskFullException(String message, Failure failure, @Nullable Throwable cause) {
    super(Reason.DISK_FULL, message, failure, cause);
  }

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   */
  public DiskFullException(String message, Failure failure) {
    this(message, failure, null);
  }
}
