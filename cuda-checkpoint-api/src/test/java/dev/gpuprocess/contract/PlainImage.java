package dev.gpuprocess.contract;

import dev.gpuprocess.internal.image.ImageDirectory;
import dev.gpuprocess.internal.image.StagedImage;
import dev.gpuprocess.internal.image.VerifiedImage;
import dev.gpuprocess.internal.manifest.ChecksummedFile;
import dev.gpuprocess.internal.manifest.ManifestData;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.RestoreOptions;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.spi.CriuDriver;
import dev.gpuprocess.spi.DumpListener;
import dev.gpuprocess.spi.DumpRequest;
import dev.gpuprocess.spi.RestoreListener;
import dev.gpuprocess.spi.RestoreReport;
import dev.gpuprocess.spi.RestoreRequest;
import java.nio.file.Path;
import java.time.Instant;
import java.util.List;
import java.util.Map;

/** Durable, verified images of processes that have nothing on a GPU. */
public final class PlainImage {

  private static final ManifestData.Options SHELL_JOB =
      new ManifestData.Options(List.of("shell-job"), null, null, null);

  private PlainImage() {}

  /** Dumps as a checkpointed process is dumped: the image is on disk before the process may die. */
  public static void dump(
      CriuDriver driver, ProcessIdentity process, Path directory, DumpOptions options) {
    try (StagedImage image = StagedImage.create(directory, process, 0, null)) {
      driver.dump(
          new DumpRequest(process, image.images(), image.work(), options),
          new DumpListener() {
            @Override
            public void postDump() {
              image.publish(files -> manifest(process, files));
            }
          });
      image.logUnwanted();
    }
  }

  public static ManifestData manifest(ProcessIdentity process, List<ChecksummedFile> files) {
    return new ManifestData(
        ManifestData.FORMAT,
        Instant.now(),
        process.pid(),
        process.startTicks(),
        List.of(),
        Map.of(),
        0,
        "",
        "",
        "",
        SHELL_JOB,
        null,
        files,
        null,
        null,
        null,
        null,
        null,
        null);
  }

  /** Restores an image that was verified. */
  public static RestoreReport restore(
      CriuDriver driver, Path directory, Path work, RestoreOptions options) {
    ImageDirectory image = ImageDirectory.open(directory);
    try (VerifiedImage verified = image.verified()) {
      return driver.restore(
          new RestoreRequest(verified.images(), work, image.manifest().pid(), options),
          RestoreListener.NONE);
    }
  }
}
