package dev.gpuprocess.survival;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.Recovered;
import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.contract.TmpFs;
import dev.gpuprocess.criu.FileTree;
import dev.gpuprocess.criu.RealCriu;
import dev.gpuprocess.fixtures.Pattern;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * A controller is killed at any moment of a snapshot. The process has its bytes, there is a whole
 * image or none, and neither a half one nor memory stays taken.
 */
@RequiresRoot("traces the process")
class SnapshotDeathTest {

  /** More of them: {@code -Dgpuprocess.snapshot.kills=200}. */
  private static final int KILLS = Integer.getInteger("gpuprocess.snapshot.kills", 4);

  private static final int MEBIBYTES = 32;
  private static final int LONGEST_MICROS = 300_000;

  /** One after the other; most of a snapshot is in these, and the next one comes soon after. */
  private static final List<String> STEPS =
      List.of("write", "hand over", "dump", "seal", "restore");

  @TempDir Path directory;

  @Test
  void whateverIsLeftIsMended() throws Exception {
    RealCriu.assume();
    Random random = new Random(11);
    Path point = Files.createDirectory(directory.resolve("memory"));
    try (SimulatedMachine machine = new SimulatedMachine(directory.resolve("machine"));
        TmpFs memory = TmpFs.mount(point, "size=80m");
        Pattern job = Pattern.launch(MEBIBYTES).on(machine.driver).notOurChild().start()) {
      GpuCheckpoints checkpoints =
          machine.checkpoints().toBuilder().snapshotSpool(memory.point()).build();
      for (int i = 0; i < KILLS; i++) {
        String step = STEPS.get(i % STEPS.size());
        int micros = random.nextInt(LONGEST_MICROS);
        kill(machine, job, memory.point(), step, micros);
        String when = "killed %d us after %s began".formatted(micros, step);
        for (Recovered found : checkpoints.recover()) {
          if (found.suspended() != null) {
            found.suspended().resume();
          }
        }
        assertTrue(job.isAlive(), when);
        assertEquals("ok " + ((long) MEBIBYTES << 20) + " bytes", job.verify(), when);
        assertEquals(List.of(), SimulatedMachine.names(memory.point()), when);
        assertEquals(List.of(), machine.journal(), when);
        assertEquals(machine.imageNames(), SimulatedMachine.names(machine.images()), when);
        if (Files.exists(machine.image())) {
          checkpoints.open(machine.image()).verify();
          FileTree.remove(machine.image());
        }
        job.touch(i + 2);
      }
    }
  }

  private static void kill(
      SimulatedMachine machine, Pattern job, Path spools, String step, int micros)
      throws InterruptedException {
    Process controller =
        ChildJvm.start(
            DyingSnapshot.class,
            machine.temporary(),
            Map.of(),
            List.of(
                machine.driver.directory().toString(),
                machine.state().toString(),
                Long.toString(job.pid()),
                machine.image().toString(),
                spools.toString(),
                step,
                Integer.toString(micros)));
    try {
      assertTrue(controller.waitFor(60, TimeUnit.SECONDS), "it dies");
      assertEquals(128 + Signals.KILL, controller.exitValue());
    } finally {
      controller.destroyForcibly();
    }
  }
}
