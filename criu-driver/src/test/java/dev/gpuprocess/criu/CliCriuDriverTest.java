package dev.gpuprocess.criu;

import dev.gpuprocess.contract.CriuDriverContract;
import dev.gpuprocess.contract.RequiresCriu;
import dev.gpuprocess.spi.CriuDriver;
import org.jspecify.annotations.NullUnmarked;

/** The contract, with the real CRIU by its command line. */
@NullUnmarked
@RequiresCriu
class CliCriuDriverTest extends CriuDriverContract {

  private static CriuDriver driver;

  @Override
  protected CriuDriver driver() {
    if (driver == null) {
      driver = new CliCriuDriver(RealCriu.command());
    }
    return driver;
  }
}
