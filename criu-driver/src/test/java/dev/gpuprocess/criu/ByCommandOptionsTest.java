package dev.gpuprocess.criu;

import static dev.gpuprocess.contract.AssertReason.assertReason;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.Workload;
import dev.gpuprocess.error.FixAndRetryException;
import dev.gpuprocess.spi.CriuDriver;
import dev.gpuprocess.spi.RestoreListener;
import dev.gpuprocess.spi.RestoreRequest;
import org.jspecify.annotations.NullUnmarked;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

/** Every option has the same effect through a command, or is refused. */
@NullUnmarked
class ByCommandOptionsTest extends OptionsTest {

  @Override
  CriuDriver driver() {
    return RpcCriuDriver.through(RealCriu.byCommand());
  }

  private static void assertRefused(String option, Executable test) {
    FixAndRetryException e =
        assertReason(
            FixAndRetryException.class, FixAndRetryException.Reason.UNSUPPORTED_OPTION, test);
    assertTrue(e.getMessage().contains("did not begin: " + option), e.getMessage());
  }

  @Test
  @Override
  void inherit_replacesAPipe_byAFileOfOurs() {
    assertRefused("inherit-f", super::inherit_replacesAPipe_byAFileOfOurs);
  }

  @Test
  @Override
  void external_letsAHalfOfAPairGo_andInheritGivesItAnother() {
    assertRefused("inherit-f", super::external_letsAHalfOfAPairGo_andInheritGivesItAnother);
  }

  @Test
  @Override
  void asChild_makesTheRootAChildOfOurs_andTellsHowItEnds() {
    assertRefused(
        "RestoreRequest.asChild", super::asChild_makesTheRootAChildOfOurs_andTellsHowItEnds);
  }

  @Test
  @Override
  void asChild_whenTheRestoreFails_leavesNoZombie() {
    try (Workload workload = Workload.counter(directory)) {
      site().dump(workload.identity(), DumpDirectories.dump().build());
      RestoreRequest request =
          site().request(workload.pid(), DumpDirectories.shellJob().build()).asChild(true);
      assertRefused(
          "RestoreRequest.asChild", () -> site().driver().restore(request, RestoreListener.NONE));
    }
  }
}
