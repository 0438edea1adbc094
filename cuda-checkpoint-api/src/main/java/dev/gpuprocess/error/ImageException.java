package dev.gpuprocess.error;

import org.jspecify.annotations.Nullable;

/** Something is wrong with an image directory. */
public class ImageException extends FixAndRetryException {

  private static final long serialVersionUID = 1L;

  /** What is wrong with an image. */
  public enum Reason implements GpuCheckpointException.Reason {
    /** The directory has no image. */
    MISSING,

    /** A file of the image is missing, truncated or altered. */
    CORRUPT,

    /** The image was written in a format that this version does not read. */
    FORMAT,

    /**
     * The image is not the one that the caller expects, or is of another kind. Nothing was
     * restored.
     */
    MISMATCH,

    /**
     * Another user could have written the image; restoring it would run that user's code with the
     * rights of this JVM.
     */
    NOT_TRUSTED,

    /**
     * The image was made with another CRIU plugin than the restore allows. This library runs CRIU
     * without plugins, except for AMD processes: with the CUDA plugin the GPU state would be
     * restored twice.
     */
    PLUGIN,

    /**
     * The directory for a new image cannot be used: its parent is missing, it is not empty, or not
     * writable.
     */
    DIRECTORY,

    /** The file system has no space for the image. */
    DISK_FULL,

    /**
     * The job file of driver 590 and later, which {@code CUDA_CHECKPOINT_JOB_FILE} names, cannot go
     * into an image, or cannot be put where the processes in the image expect it. Nothing was
     * dumped or restored.
     */
    JOB_FILE,

    /**
     * A file cannot be read now, for want of a permission or of descriptors: the image may be
     * whole.
     */
    UNREADABLE,

    /** A file of the image cannot be written, copied or removed. */
    UNWRITABLE,

    /**
     * Memory or an open file of the process cannot go into the image; the message says what to do.
     */
    NOT_DUMPED
  }

  /**
   * Creates the exception.
   *
   * @param reason what is wrong with the image
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   * @param cause what was caught, or null
   */
  public ImageException(Reason reason, String message, Failure failure, @Nullable Throwable cause) {
    super(reason, message, failure, cause);
  }

  /**
   * Creates the exception.
   *
   * @param reason what is wrong with the image
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   */
  public ImageException(Reason reason, String message, Failure failure) {
    this(reason, message, failure, null);
  }

  /**
   * Returns what is wrong with the image.
   *
   * @return for programs; the message names the file
   */
  @Override
  public final Reason reason() {
    return (Reason) super.reason();
  }
}
