package dev.gpuprocess.criu.internal.restore;

import dev.gpuprocess.criu.internal.images.TreeReader;
import dev.gpuprocess.internal.proc.Capabilities;
import dev.gpuprocess.internal.proc.Capabilities.Capability;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.IntStream;

/**
 * Checks that CRIU may do what a restore needs. A restored process gets the bounding set that it
 * had. To take capabilities out of the set CRIU needs CAP_SETPCAP; without it the process crashes
 * in the middle of its restore, and CRIU may wait for it endlessly.
 *
 * @param images the directory of the image files
 */
record RestoreRights(Path images) {

  static final String CURE =
      "give CRIU CAP_SETPCAP (setcap cap_checkpoint_restore,cap_sys_ptrace,cap_setpcap+eip on its program), or run it as root";

  /** CRIU may not restore these images. */
  static final class MissingException extends IOException {

    private static final long serialVersionUID = 1L;

    /**
     * Creates the exception.
     *
     * @param why the reason, for the middle of a sentence
     */
    MissingException(String why) {
      super(why);
    }
  }

  /**
   * Checks a CRIU that has not begun.
   *
   * @param criu its pid
   * @throws MissingException when it lacks CAP_SETPCAP, and needs it
   * @throws IOException when the images cannot be read
   */
  void require(int criu) throws IOException {
    if (Capabilities.of(criu).has(Capability.SETPCAP)) {
      return;
    }
    long allowed = new TreeReader(images).commonBoundingSet();
    List<Integer> denied =
        IntStream.rangeClosed(0, Capabilities.newest())
            .filter(number -> (allowed & 1L << number) == 0)
            .boxed()
            .toList();
    if (!denied.isEmpty()) {
      throw new MissingException(
          "the processes of the image cannot have the capabilities %s, and CRIU lacks CAP_SETPCAP to take them away again"
              .formatted(denied));
    }
  }
}
