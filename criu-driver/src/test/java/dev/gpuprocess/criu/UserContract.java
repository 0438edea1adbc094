package dev.gpuprocess.criu;

import dev.gpuprocess.contract.CriuDriverContract;
import dev.gpuprocess.spi.CriuDriver;
import org.jspecify.annotations.NullUnmarked;
import org.junit.jupiter.api.parallel.Isolated;

/** The contract, in a JVM whose user may run CRIU by a command that makes it root. */
@NullUnmarked
@Isolated("it counts the children of this JVM")
class UserContract extends CriuDriverContract {

  private static CriuDriver driver;

  @Override
  protected CriuDriver driver() {
    if (driver == null) {
      driver = UserScenarios.throughCommand();
    }
    return driver;
  }
}
