package dev.gpuprocess.internal.linux;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.ImageException;
import java.nio.file.AccessDeniedException;
import java.nio.file.Path;

/**
 * Makes the exception for an image that cannot be read. If descriptors have run out, the image may
 * be intact, and must not be discarded.
 */
public final class UnreadableImage {

  private UnreadableImage() {}

  /**
   * Makes the exception for an image that this user may not read.
   *
   * @param image its directory
   * @param cause the refusal
   */
  public static ImageException denied(Path image, Failure failure, AccessDeniedException cause) {
    return new ImageException(
        ImageException.Reason.UNREADABLE,
        "%s may not be read by this user, so it is not known whether it is an image: read it as root or as its owner"
            .formatted(image),
        failure,
        cause);
  }

  /**
   * Makes the exception for an image that cannot be read.
   *
   * @param what the beginning of the message: what cannot be read
   * @param cause the reason
   * @return an {@link ImageException} with reason CORRUPT unless descriptors have run out
   */
  public static ImageException of(String what, Failure failure, Exception cause) {
    return Descriptors.areUsedUp(cause)
        ? new ImageException(
            ImageException.Reason.UNREADABLE,
            what
                + ": too many files are open, so nothing is known about the image; close some or raise the limit (ulimit -n), and try again",
            failure,
            cause)
        : new ImageException(
            ImageException.Reason.CORRUPT,
            what + ": use another copy of the image",
            failure,
            cause);
  }
}
