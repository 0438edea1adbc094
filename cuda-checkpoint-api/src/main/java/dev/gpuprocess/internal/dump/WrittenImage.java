package dev.gpuprocess.internal.dump;

import dev.gpuprocess.internal.call.BoundedDiskTask;
import dev.gpuprocess.internal.image.ImageDirectory;
import dev.gpuprocess.internal.image.StagedImage;
import dev.gpuprocess.internal.manifest.ChecksummedFile;
import dev.gpuprocess.internal.manifest.ManifestData;
import dev.gpuprocess.internal.time.Durations;
import dev.gpuprocess.internal.time.WorkLimit;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.function.BooleanSupplier;
import java.util.function.Function;

/**
 * The last phase of a snapshot, whose process may run: the GPU memory, which is in files in host
 * memory, goes to the disk, and the image is sealed. A journal entry names the image until then.
 * For one thread.
 */
final class WrittenImage {

  private final Dump dump;
  private final StagedImage image;
  private final Function<List<ChecksummedFile>, ManifestData> manifest;
  private final Path place;

  /**
   * Takes over an image that is written.
   *
   * @param place its directory, for exceptions
   */
  WrittenImage(Dump dump, ImageWriting writing, Path place) {
    this.dump = dump;
    this.image = writing.image();
    this.manifest = writing.manifest();
    this.place = place;
  }

  /**
   * Makes the image durable and gives it its name. If that fails, the image is removed. The
   * deadline begins now, because the process may have waited long for its GPU.
   */
  ImageDirectory publish() {
    return publish(dump.options.deadline(), dump::isCancelled);
  }

  /** Publishes an image whose process may be lost: without a deadline, and not cancellable. */
  ImageDirectory publishAtLength() {
    return publish(Durations.LONGEST, () -> false);
  }

  private ImageDirectory publish(Duration time, BooleanSupplier isCancelled) {
    int pid = dump.root.pid();
    WorkLimit copying = WorkLimit.copying(pid, time, isCancelled);
    BoundedDiskTask disk = new BoundedDiskTask("dump", pid, place, time);
    try {
      dump.saveFiles.write(image, disk, copying);
      copying.check();
      return dump.steps.run(
          "seal",
          () ->
              disk.run(
                  "seal",
                  () -> image.publish(manifest),
                  late -> {
                    image.retractWhenClosed();
                    close();
                  }),
          made -> made.manifest().bytes());
    } finally {
      if (!disk.hangs()) {
        disk.tidy("tidy", dump.context.timeouts().call(), this::close);
      }
    }
  }

  private void close() {
    dump.saveFiles.closeWith(image);
  }
}
