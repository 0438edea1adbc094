package dev.gpuprocess.criu;

import dev.gpuprocess.contract.CriuDriverContract;
import dev.gpuprocess.contract.RequiresCriu;
import dev.gpuprocess.spi.CriuDriver;
import org.jspecify.annotations.NullUnmarked;

/** The contract, with the real CRIU behind a command that stays as sudo does. */
@NullUnmarked
@RequiresCriu
class ByCommandContractTest extends CriuDriverContract {

  private static CriuDriver driver;

  @Override
  protected CriuDriver driver() {
    if (driver == null) {
      driver = RpcCriuDriver.through(RealCriu.byCommand());
    }
    return driver;
  }
}
