package dev.gpuprocess.survival;

import dev.gpuprocess.contract.PlainImage;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.RestoreOptions;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.spi.CriuDriver;
import java.nio.file.Path;
import java.time.Duration;

/** The verb during which a process is killed. */
enum CrashedVerb {
  DUMP {
    @Override
    void act(CriuDriver driver, int pid, Path place) {
      ProcessIdentity process = ProcessIdentity.of(pid).orElseThrow();
      PlainImage.dump(
          driver, process, image(place), DumpOptions.builder().deadline(PATIENCE).build());
    }
  },
  RESTORE {
    @Override
    void act(CriuDriver driver, int pid, Path place) {
      PlainImage.restore(
          driver,
          image(place),
          place,
          RestoreOptions.builder().criu(c -> c.shellJob(true)).deadline(PATIENCE).build());
    }
  };

  private static final Duration PATIENCE = Duration.ofSeconds(45);

  /**
   * Does it.
   *
   * @param place a directory for the image and CRIU's log
   */
  abstract void act(CriuDriver driver, int pid, Path place);

  static Path image(Path place) {
    return place.resolve("image");
  }
}
