package dev.gpuprocess.error;

import java.nio.file.Path;
import org.jspecify.annotations.Nullable;

/**
 * A dump failed after its image was complete and on disk, and it could not be found out whether the
 * process is still alive. The image is kept, because it may be all that is left of the process:
 * restore it if the process is gone, remove it if the process is alive.
 */
public class ImageKeptException extends FixAndRetryException {

  private static final long serialVersionUID = 1L;

  private final transient @Nullable Path image;

  /** A {@link Path} cannot be serialized. */
  private final String name;

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   * @param image where the image is
   * @param cause what was caught, or null
   */
  public ImageKeptException(
      String message, Failure failure, Path image, @Nullable Throwable cause) {
    super(Reason.IMAGE_KEPT, message, failure, cause);
    this.image = image;
    this.name = image.toString();
  }

  /**
   * The image, complete and durable.
   *
   * @return its directory, for {@link dev.gpuprocess.ProcessImage#open}
   */
  public Path image() {
    return image == null ? Path.of(name) : image;
  }
}
