package dev.gpuprocess.criu;

import static dev.gpuprocess.contract.AssertReason.assertReason;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.criu.internal.process.CriuCommand;
import dev.gpuprocess.error.MachineUnfitException;
import dev.gpuprocess.internal.linux.CurrentUser;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.NullUnmarked;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** The selection of CRIU when none was named. */
@Tag("jdk")
@NullUnmarked
class SelectionTest {

  private final Map<String, String> environment = new HashMap<>();

  @BeforeEach
  void copyEnvironment() {
    environment.putAll(System.getenv());
  }

  private CriuCommand chosen() {
    return new CriuFinder(new CriuLocator(null, null, environment)).find("test").command();
  }

  private void commandIs(List<String> words) {
    environment.put(CriuLocator.COMMAND_VARIABLE, " " + String.join("  ", words));
  }

  @Test
  void theServiceLoader_findsIt() {
    assertInstanceOf(RpcCriuDriver.class, GpuCheckpoints.standard().criu());
  }

  @Test
  void ourOwnChild_isUsedWhereItWorks() {
    RealCriu.assume();
    assertTrue(chosen().direct());
    commandIs(List.of("env", RealCriu.command().get(0)));
    assertTrue(chosen().direct());
  }

  @Test
  void theCommand_isUsedWhereOurChildDoesNotWork() {
    commandIs(List.of("env", RealCriu.command().get(0)));
    environment.put(CriuLocator.VARIABLE, "/nowhere/criu");
    assertFalse(chosen().direct());
  }

  @Test
  void aCommandThatWasNamedInTheProgram_isUsedAlways() {
    RpcCriuDriver driver = RpcCriuDriver.through(RealCriu.byCommand());
    assertEquals(new RpcCriuDriver().version(), driver.version());
    driver.check();
  }

  @Test
  void withoutACommand_itIsSaidWhatIsWrong() {
    Assumptions.assumeTrue(CurrentUser.isRoot(), "not root: sudo is tried");
    environment.put(CriuLocator.VARIABLE, "/nowhere/criu");
    MachineUnfitException e =
        assertReason(
            MachineUnfitException.class, MachineUnfitException.Reason.NO_CRIU, this::chosen);
    assertTrue(e.getMessage().contains("the file does not exist"), e.getMessage());
    assertFalse(e.getMessage().contains("sudo"), "root needs none: " + e.getMessage());
  }

  @Test
  void whenNeitherWorks_bothReasonsAreTold() {
    commandIs(List.of("false", "criu"));
    environment.put(CriuLocator.VARIABLE, "/nowhere/criu");
    MachineUnfitException e =
        assertReason(
            MachineUnfitException.class, MachineUnfitException.Reason.NO_CRIU, this::chosen);
    assertTrue(e.getMessage().contains("the file does not exist"), e.getMessage());
    assertTrue(
        e.getMessage().contains("'false criu': it does not report its version: exit 1"),
        e.getMessage());
  }
}
