package dev.gpuprocess.error;

import org.jspecify.annotations.Nullable;

/** A file of the image is missing, truncated or altered. */
public class ImageCorruptException extends ImageException {

  private static final long serialVersionUID = 1L;

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   * @param cause what was caught, or null
   */
  public ImageCorruptException(String message, Failure failure, @Nullable Throwable cause) {
    super(message, failure, cause);
  }

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   */
  public ImageCorruptException(String message, Failure failure) {
    this(message, failure, null);
  }
}
