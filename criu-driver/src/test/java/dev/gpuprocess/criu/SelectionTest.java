package dev.gpuprocess.criu;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.error.CriuUnavailableException;
import dev.gpuprocess.spi.CriuDriver;
import java.nio.file.Path;
import org.jspecify.annotations.NullUnmarked;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Which driver is used when nobody has said which. */
@Tag("jdk")
@NullUnmarked
class SelectionTest {

  @TempDir Path directory;
  private CriuDriver noRpc;

  @BeforeEach
  void makeDrivers() {
    noRpc = new RpcCriuDriver(directory.resolve("nowhere"));
  }

  @Test
  void theServiceLoader_findsTheAutomaticOne() {
    assertInstanceOf(AutomaticCriuDriver.class, GpuCheckpoints.standard().criu());
  }

  @Test
  void rpc_isUsedWhereItWorks() {
    RealCriu.assume();
    CriuDriver rpc = new RpcCriuDriver();
    String command = String.join(" ", RealCriu.command());
    assertSame(rpc, new AutomaticCriuDriver(rpc, command).chosen());
    assertSame(rpc, new AutomaticCriuDriver(rpc, "").chosen());
  }

  @Test
  void theCommand_isUsedWhereRpcDoesNotWork() {
    String command = " " + String.join(" ", RealCriu.command());
    AutomaticCriuDriver automatic = new AutomaticCriuDriver(noRpc, command);
    assertInstanceOf(CliCriuDriver.class, automatic.chosen());
    assertSame(automatic.chosen(), automatic.chosen());
    assertEquals(new RpcCriuDriver().version(), automatic.version());
    automatic.check();
  }

  @Test
  void allWaysToCriu_tellTheSameOfThisKernel() {
    RealCriu.assume();
    var told = new RpcCriuDriver().features();
    assertEquals(told, new CliCriuDriver(RealCriu.command()).features());
    assertEquals(told, GpuCheckpoints.standard().criu().features());
  }

  @Test
  void withoutACommand_rpcSaysWhatIsWrong() {
    CriuUnavailableException e =
        assertThrows(
            CriuUnavailableException.class, () -> new AutomaticCriuDriver(noRpc, "").version());
    assertTrue(e.getMessage().contains("there is no such file"), e.getMessage());
  }

  @Test
  void whenNeitherWorks_bothReasonsAreTold() {
    CriuUnavailableException e =
        assertThrows(
            CriuUnavailableException.class,
            () -> new AutomaticCriuDriver(noRpc, "false criu").check());
    assertTrue(e.getMessage().contains("'false criu --version'"), e.getMessage());
    assertTrue(e.getSuppressed()[0].getMessage().contains("there is no such file"));
  }
}
