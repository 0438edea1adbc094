package dev.gpuprocess.internal.dump;

import dev.gpuprocess.image.ImageFile;
import dev.gpuprocess.image.Manifest;
import dev.gpuprocess.internal.call.BoundedDiskTask;
import dev.gpuprocess.internal.engine.StepRecorder;
import dev.gpuprocess.internal.engine.TrackedTree;
import dev.gpuprocess.internal.image.ImageDirectory;
import dev.gpuprocess.internal.image.StagedImage;
import dev.gpuprocess.internal.time.Durations;
import dev.gpuprocess.internal.time.WorkLimit;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.function.BooleanSupplier;
import java.util.function.Function;

/**
 * An image for which nothing is needed any more of its process, which may run on: what is in memory
 * goes to the disk, and then the image gets its name. Journalled until then. For one thread.
 */
final class WrittenImage {

  private final TrackedTree job;
  private final StagedImage image;
  private final SaveFileSteps saveFiles;
  private final Path place;
  private final Duration limit;
  private final BooleanSupplier isCancelled;
  private final StepRecorder steps;
  private final Function<List<ImageFile>, Manifest> manifest;

  WrittenImage(
      TrackedTree job,
      StagedImage image,
      SaveFileSteps saveFiles,
      Path place,
      Duration limit,
      BooleanSupplier isCancelled,
      StepRecorder steps,
      Function<List<ImageFile>, Manifest> manifest) {
    this.job = job;
    this.image = image;
    this.saveFiles = saveFiles;
    this.place = place;
    this.limit = limit;
    this.isCancelled = isCancelled;
    this.steps = steps;
    this.manifest = manifest;
  }

  /**
   * Makes it durable and gives it its name. Whatever fails, nothing is left of it. Its time begins
   * now: the process may have waited long for its GPU.
   */
  ImageDirectory publish() {
    return publish(WorkLimit.copying(job.root.pid(), limit, isCancelled), limit);
  }

  /**
   * The same of an image that may be all that is left of its process: it takes what time it takes,
   * and is not cancelled.
   */
  ImageDirectory publishAtLength() {
    return publish(
        WorkLimit.copying(job.root.pid(), Durations.LONGEST, () -> false), Durations.LONGEST);
  }

  private ImageDirectory publish(WorkLimit copying, Duration time) {
    BoundedDiskTask disk = new BoundedDiskTask("dump", job.root.pid(), place, time);
    try {
      saveFiles.write(image, disk, copying, late -> close());
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
        disk.tidy("tidy", job.context.timeouts().call(), this::close);
      }
    }
  }

  private void close() {
    saveFiles.closeWith(image);
  }
}
