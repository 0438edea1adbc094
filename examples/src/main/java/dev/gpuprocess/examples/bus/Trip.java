package dev.gpuprocess.examples.bus;

import dev.gpuprocess.fixtures.Workload;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;

/**
 * How long a process took off the GPU, into an image and back, in seconds.
 *
 * @param suspend until its GPU memory was in host memory
 * @param dump until its image was complete
 * @param restore from the image until it ran again
 */
record Trip(double suspend, double dump, double restore) {

  private static final Duration PATIENCE = Duration.ofSeconds(60);

  /** Makes one. What is restored is read from the disk, if the image is on one. */
  static Trip of(Way way, Workload process, Path image) throws IOException, InterruptedException {
    Stopwatch watch = new Stopwatch();
    way.suspend();
    double suspend = watch.seconds();
    watch = new Stopwatch();
    way.dump(image);
    double dump = watch.seconds();
    if (!process.awaitExit(PATIENCE)) {
      throw new IllegalStateException("process " + process.pid() + " does not end");
    }
    PageCache.drop(image);
    watch = new Stopwatch();
    way.restore();
    return new Trip(suspend, dump, watch.seconds());
  }
}
