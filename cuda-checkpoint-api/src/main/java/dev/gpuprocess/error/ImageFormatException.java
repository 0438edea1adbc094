package dev.gpuprocess.error;

/** The image was written in a format that this version does not read. */
public class ImageFormatException extends ImageException {

  private static final long serialVersionUID = 1L;

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   */
  public ImageFormatException(String message, Failure failure) {
    super(message, failure, null);
  }
}
