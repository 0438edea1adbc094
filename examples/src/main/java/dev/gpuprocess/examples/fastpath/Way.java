package dev.gpuprocess.examples.fastpath;

import java.io.IOException;
import java.nio.file.Path;

/**
 * A way for one process off the GPU, into an image and back. The steps are called in turn; it can
 * be restored again when it is gone.
 */
interface Way {

  /** Brings its GPU memory to host memory. */
  void suspend() throws IOException;

  /**
   * Dumps it; when this returns the image is complete and synced.
   *
   * @param image does not exist yet
   */
  void dump(Path image) throws IOException, InterruptedException;

  /** Brings it back from the image and to the GPU; it runs when this returns. */
  void restore() throws IOException, InterruptedException;

  /** What it did and how long each part took, for one line. */
  String steps();
}
