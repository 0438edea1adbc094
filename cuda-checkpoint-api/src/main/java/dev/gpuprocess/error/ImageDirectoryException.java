package dev.gpuprocess.error;

import org.jspecify.annotations.Nullable;

/**
 * The directory for a new image cannot be used: its parent is missing, it is not empty, or not
 * writable.
 */
public class ImageDirectoryException extends ImageException {

  private static final long serialVersionUID = 1L;

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   * @param cause what was caught, or null
   */
  public ImageDirectoryException(String message, Failure failure, @Nullable Throwable cause) {
    super(message, failure, cause);
  }

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   */
  public ImageDirectoryException(String message, Failure failure) {
    this(message, failure, null);
  }
}
