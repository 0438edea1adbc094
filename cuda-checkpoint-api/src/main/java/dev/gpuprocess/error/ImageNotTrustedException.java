package dev.gpuprocess.error;

import org.jspecify.annotations.Nullable;

/** Somebody else could have written the image; restoring it would run their code as us. */
public class ImageNotTrustedException extends ImageException {

  private static final long serialVersionUID = 1L;

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   * @param cause what was caught, or null
   */
  public ImageNotTrustedException(String message, Failure failure, @Nullable Throwable cause) {
    super(message, failure, cause);
  }

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   */
  public ImageNotTrustedException(String message, Failure failure) {
    this(message, failure, null);
  }
}
