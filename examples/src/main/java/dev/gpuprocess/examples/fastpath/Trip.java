package dev.gpuprocess.examples.fastpath;

import dev.gpuprocess.fixtures.Workload;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.function.Supplier;

/**
 * How long a process took off the GPU, into an image and back, in seconds.
 *
 * @param suspend until its GPU memory was in host memory
 * @param dump until its image was complete
 * @param restore from the image until it ran again
 */
record Trip(double suspend, double dump, double restore) {

  private static final Duration PATIENCE = Duration.ofSeconds(60);

  /**
   * Makes one.
   *
   * @param look at all of the process's memory; what it says must stay the same
   */
  static Trip of(Way way, Workload process, Supplier<String> look, Path image)
      throws IOException, InterruptedException {
    String before = look.get();
    if (!before.startsWith("ok ")) {
      throw new IllegalStateException("the memory is not right to begin with: " + before);
    }
    long began = System.nanoTime();
    way.suspend();
    long suspended = System.nanoTime();
    way.dump(image);
    long dumped = System.nanoTime();
    if (!process.awaitExit(PATIENCE)) {
      throw new IllegalStateException("process " + process.pid() + " does not end");
    }
    long free = System.nanoTime();
    way.restore();
    long back = System.nanoTime();
    String after = look.get();
    if (!after.equals(before)) {
      throw new IllegalStateException("the memory is not what it was: " + after);
    }
    return new Trip((suspended - began) / 1e9, (dumped - suspended) / 1e9, (back - free) / 1e9);
  }
}
