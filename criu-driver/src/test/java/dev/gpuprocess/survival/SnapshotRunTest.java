package dev.gpuprocess.survival;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.contract.Figures;
import dev.gpuprocess.criu.Hoard;
import dev.gpuprocess.criu.RealCriu;
import dev.gpuprocess.survival.SnapshotRun.Result;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** A short {@code bin/snapshot-test}, and a controller without free descriptors for a while. */
@Timeout(value = 5, unit = TimeUnit.MINUTES)
class SnapshotRunTest {

  private static final Duration TIME = Duration.ofSeconds(4);
  private static final Duration INTERVAL = Duration.ofMillis(200);
  private static final long SEED = 4;

  @TempDir Path directory;

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void nothingIsLost(boolean isJob) throws Exception {
    RealCriu.assume();
    Result result = SnapshotRun.run(directory, TIME, INTERVAL, SEED, isJob);
    Figures.add(result.figure());
    assertEquals(List.of(), result.lost());
    assertTrue(result.made() > 0, result::toString);
  }

  @Test
  void aControllerWithoutDescriptorsGoesOnWhenItHasSome() throws Exception {
    RealCriu.assume();
    try (SimulatedMachine machine = new SimulatedMachine(directory.resolve("machine"));
        Subject subject = Subject.start(machine.driver);
        SnapshotControllerProcess controller =
            SnapshotControllerProcess.start(Hoard.launcher(), machine, subject.pid(), INTERVAL)) {
      controller.awaitMade();
      controller.order(SnapshotController.STARVE);
      controller.await(SnapshotController.PRUNE_FAILED);
      controller.await(SnapshotController.FAILED);
      assertEquals(Optional.empty(), subject.fault());
      controller.order(SnapshotController.FEED);
      controller.awaitMade();
      controller.end();
      assertEquals(Optional.empty(), subject.fault());
      GpuCheckpoints checkpoints = machine.checkpoints();
      checkpoints.store(machine.images()).newestThatVerifies().verify();
      assertEquals(List.of(), machine.journal());
    }
  }
}
