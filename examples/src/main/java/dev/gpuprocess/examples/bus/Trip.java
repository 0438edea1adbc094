package dev.gpuprocess.examples.bus;

import dev.gpuprocess.fixtures.Workload;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;

/**
 * The seconds that a process took off the GPU, into an image and back.
 *
 * @param suspend until its GPU memory was in host memory
 * @param dump until its image was complete
 * @param restore from the image until it ran again
 */
record Trip(double suspend, double dump, double restore) {

  private static final Duration PATIENCE = Duration.ofSeconds(60);

  /** Suspends, dumps and restores. An image on a disk is read from the disk. */
  static Trip of(Way way, Workload process, Path image) throws IOException, InterruptedException {
    Stopwatch watch = new Stopwatch();
    way.suspend();
    double suspend = watch.seconds();
    watch = new Stopwatch();
    way.dump(image);
    double dump = watch.seconds();
    if (!process.awaitExit(PATIENCE)) {
      throw new IllegalStateException("process " + process.pid() + " does not exit");
    }
    PageCache.drop(image);
    watch = new Stopwatch();
    way.restore();
    return new Trip(suspend, dump, watch.seconds());
  }
}
