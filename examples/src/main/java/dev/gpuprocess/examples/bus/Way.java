package dev.gpuprocess.examples.bus;

import java.io.IOException;
import java.nio.file.Path;

/**
 * A way to move one process off the GPU and back, through host memory alone or through an image.
 * The process can be restored again when it has exited.
 */
interface Way {

  /** Moves the GPU memory of the process to host memory. */
  void suspend() throws IOException;

  /** Moves the GPU memory back after {@link #suspend}; the process runs when this returns. */
  void resume() throws IOException;

  /**
   * Dumps the process after {@link #suspend}; the image is complete and synced when this returns.
   *
   * @param image the new directory
   */
  void dump(Path image) throws IOException, InterruptedException;

  /** Restores the process from the image; it runs when this returns. */
  void restore() throws IOException, InterruptedException;

  /** Returns the steps and their durations, in one line. */
  String steps();
}
