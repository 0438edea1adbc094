package dev.gpuprocess.criu;

import static org.junit.jupiter.api.Assertions.assertInstanceOf;

import dev.gpuprocess.contract.CriuDriverContract;
import dev.gpuprocess.spi.CriuDriver;
import java.util.ServiceLoader;
import org.jspecify.annotations.NullUnmarked;
import org.junit.jupiter.api.Test;

/** The contract, with the real CRIU. */
@NullUnmarked
class RpcCriuDriverTest extends CriuDriverContract {

  private static final CriuDriver DRIVER = new RpcCriuDriver();

  @Override
  protected CriuDriver driver() {
    RealCriu.assume();
    return DRIVER;
  }

  @Test
  void isFoundAsAService() {
    assertInstanceOf(
        RpcCriuDriver.class, ServiceLoader.load(CriuDriver.class).findFirst().orElseThrow());
  }
}
