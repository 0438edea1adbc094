package dev.gpuprocess.internal.os;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.ImageCorruptException;
import dev.gpuprocess.error.ImageException;

/**
 * The exception for an image that cannot be read. When descriptors have run out that says nothing
 * about the image, and nobody should throw it away.
 */
public final class UnreadableImage {

  private UnreadableImage() {}

  /**
   * Makes it.
   *
   * @param what the beginning of the message: what cannot be read
   * @param cause why
   * @return an {@link ImageCorruptException} unless descriptors have run out
   */
  public static ImageException of(String what, Failure failure, Exception cause) {
    return Descriptors.areUsedUp(cause)
        ? new ImageException(
            what
                + ": too many files are open, so nothing is known about the image; close some or raise the limit (ulimit -n), and try again",
            failure,
            cause)
        : new ImageCorruptException(what + ": use another copy of the image", failure, cause);
  }
}
