package dev.gpuprocess.error;

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
   */
  public ImageMismatchException(String message, Failure failure) {
    super(message, failure, null);
  }
}
