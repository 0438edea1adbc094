package dev.gpuprocess.error;

import dev.gpuprocess.internal.text.Printable;
import java.io.Serializable;

/**
 * Something in which a machine differs from the one that an image was made on. Immutable.
 *
 * @param aspect what differs
 * @param subject its name: the path of a file, or what the aspect is called
 * @param inImage what the image was made with, such as {@code 580.159.04}
 * @param here what there is instead, such as {@code 570.86.10} or {@code missing}
 * @param prevents true when the restored process could not go on with it; false for what only is
 *     remarkable
 */
public record MachineDifference(
    Aspect aspect, String subject, String inImage, String here, boolean prevents)
    implements Serializable {

  /** What can differ. */
  public enum Aspect {
    /** The instruction set, or instructions of it. */
    CPU,
    /** The version of the NVIDIA driver. */
    DRIVER,
    /** The kinds and numbers of GPUs, or which ones they are. */
    GPU,
    /** A directory of the host that an isolated process has. */
    MOUNT,
    /** A program or shared library. */
    FILE,
    /** The release of the kernel. */
    KERNEL,
    /** The version of CRIU. */
    CRIU
  }

  private static final int MOST_OF_EACH = 400;

  /** One clause, with what could mislead in a terminal or a log escaped. */
  @Override
  public String toString() {
    return "%s: %s in the image, %s here"
        .formatted(
            Printable.of(subject, MOST_OF_EACH),
            Printable.of(inImage, MOST_OF_EACH),
            Printable.of(here, MOST_OF_EACH));
  }
}
