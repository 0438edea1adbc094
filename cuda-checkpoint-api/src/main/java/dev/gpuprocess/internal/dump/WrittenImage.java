package dev.gpuprocess.internal.dump;

import dev.gpuprocess.image.ImageFile;
import dev.gpuprocess.image.Manifest;
import dev.gpuprocess.internal.call.BoundedDiskTask;
import dev.gpuprocess.internal.engine.StepRecorder;
import dev.gpuprocess.internal.engine.TrackedProcess;
import dev.gpuprocess.internal.process.ProcessKey;
import dev.gpuprocess.internal.store.ImageDirectory;
import dev.gpuprocess.internal.store.StagedImage;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.function.Function;

/**
 * An image for which nothing is needed any more of its process, which may run on: what is in memory
 * goes to the disk, and then the image gets its name. Journalled until then. For one thread.
 */
final class WrittenImage {

  private final TrackedProcess target;
  private final StagedImage image;
  private final HandOverStep handOver;
  private final Path place;
  private final Duration limit;
  private final StepRecorder steps;
  private final Function<List<ImageFile>, Manifest> manifest;
  private final ProcessKey noted;

  WrittenImage(
      TrackedProcess target,
      StagedImage image,
      HandOverStep handOver,
      Path place,
      Duration limit,
      StepRecorder steps,
      Function<List<ImageFile>, Manifest> manifest,
      ProcessKey noted) {
    this.target = target;
    this.image = image;
    this.handOver = handOver;
    this.place = place;
    this.limit = limit;
    this.steps = steps;
    this.manifest = manifest;
    this.noted = noted;
  }

  /**
   * Makes it durable and gives it its name. Whatever fails, nothing is left of it. Its time begins
   * now: the process may have waited long for its GPU.
   */
  ImageDirectory publish() {
    BoundedDiskTask disk = new BoundedDiskTask("dump", target.pid(), place, limit);
    try {
      handOver.write(image, disk, limit, late -> close());
      return steps.run(
          "seal",
          () ->
              disk.run(
                  "seal",
                  () -> image.publish(manifest),
                  made -> {
                    image.retractWhenClosed();
                    close();
                  }),
          made -> made.manifest().bytes());
    } finally {
      if (!disk.hangs()) {
        disk.tidy("tidy", target.context.timeouts().call(), this::close);
      }
    }
  }

  private void close() {
    handOver.close();
    image.close();
    target.forgetImage(noted);
  }
}
