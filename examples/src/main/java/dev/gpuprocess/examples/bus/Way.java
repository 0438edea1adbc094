package dev.gpuprocess.examples.bus;

import java.io.IOException;
import java.nio.file.Path;

/**
 * A way for one process off the GPU and back, by host memory alone or by an image as well. It can
 * be restored from its image again when it is gone.
 */
interface Way {

  /** Brings its GPU memory to host memory. */
  void suspend() throws IOException;

  /** Brings it back to the GPU after {@link #suspend}; it runs when this returns. */
  void resume() throws IOException;

  /**
   * Dumps it after {@link #suspend}; when this returns the image is complete and synced.
   *
   * @param image does not exist yet
   */
  void dump(Path image) throws IOException, InterruptedException;

  /** Brings it back from the image and to the GPU; it runs when this returns. */
  void restore() throws IOException, InterruptedException;

  /** What it did and how long each part took, for one line. */
  String steps();
}
