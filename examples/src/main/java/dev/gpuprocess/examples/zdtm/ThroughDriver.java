package dev.gpuprocess.examples.zdtm;

import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.spi.CriuDriver;
import dev.gpuprocess.spi.DumpListener;
import dev.gpuprocess.spi.DumpRequest;
import dev.gpuprocess.spi.RestoreListener;
import dev.gpuprocess.spi.RestoreRequest;
import java.nio.file.Path;
import java.util.List;

/**
 * The driver of this library.
 *
 * @param driver the driver to try
 */
record ThroughDriver(CriuDriver driver) implements Way {

  @Override
  public void dump(List<String> options, ProcessIdentity process, Path images, Path work)
      throws FailedException, NotHereException {
    try {
      driver.dump(
          new DumpRequest(process, images, work, DescriptionOptions.dump(options)),
          DumpListener.NONE);
    } catch (GpuCheckpointException e) {
      throw new FailedException(String.valueOf(e.getMessage()), e);
    }
  }

  @Override
  public int restore(List<String> options, int pid, Path images, Path work)
      throws FailedException, NotHereException {
    try {
      return driver
          .restore(
              new RestoreRequest(images, work, pid, DescriptionOptions.restore(options)),
              RestoreListener.NONE)
          .process()
          .pid();
    } catch (dev.gpuprocess.error.PidTakenException e) {
      throw new PidTakenException(String.valueOf(e.getMessage()), e);
    } catch (GpuCheckpointException e) {
      throw new FailedException(String.valueOf(e.getMessage()), e);
    }
  }
}
