package dev.gpuprocess.criu;

import dev.gpuprocess.contract.CriuDriverContract;
import dev.gpuprocess.contract.RequiresCriu;
import dev.gpuprocess.spi.CriuDriver;
import org.jspecify.annotations.NullUnmarked;
import org.junit.jupiter.api.Tag;

/** The contract, with the real CRIU. */
@Tag("jdk")
@NullUnmarked
@RequiresCriu
class RpcCriuDriverTest extends CriuDriverContract {

  private static final CriuDriver DRIVER = new RpcCriuDriver();

  @Override
  protected CriuDriver driver() {
    RealCriu.assume();
    return DRIVER;
  }
}
