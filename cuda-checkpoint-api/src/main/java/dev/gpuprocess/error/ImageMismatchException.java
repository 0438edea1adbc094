package dev.gpuprocess.error;

import org.jspecify.annotations.Nullable;

/**
 * The image is not the one that was expected with {@link dev.gpuprocess.options.RestoreOptions}.
 * Nothing was restored.
 */
public class ImageMismatchException extends ImageException {

  private static final long serialVersionUID = 1L;

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   * @param cause what was caught, or null
   */
  public ImageMismatchException(String message, Failure failure, @Nullable Throwable cause) {
    super(message, failure, cause);
  }

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   */
  public ImageMismatchException(String message, Failure failure) {
    this(message, failure, null);
  }
}
