package dev.gpuprocess.survival;

import dev.gpuprocess.criu.PlainImage;
import dev.gpuprocess.process.ProcessIdentity;
import dev.gpuprocess.spi.CriuDriver;
import dev.gpuprocess.spi.RestoreListener;
import java.nio.file.Path;

/** What is done while somebody dies. */
enum CrashedVerb {
  DUMP {
    @Override
    void act(CriuDriver driver, int pid, Path place) {
      ProcessIdentity process = ProcessIdentity.of(pid).orElseThrow();
      PlainImage.dump(driver, process, image(place), false);
    }
  },
  RESTORE {
    @Override
    void act(CriuDriver driver, int pid, Path place) {
      PlainImage.restore(driver, image(place), place, RestoreListener.NONE);
    }
  };

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
