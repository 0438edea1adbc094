package dev.gpuprocess.survival;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.Recovered;
import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.criu.RealCriu;
import dev.gpuprocess.fixtures.Pattern;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.progress.RecoveryOutcome;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/**
 * A controller is killed at any moment of a hand-over; the process has its bytes, and nothing of
 * the controller stays in it.
 */
@RequiresRoot("traces the process")
class HandOverDeathTest {

  /** More of them: {@code -Dgpuprocess.handover.kills=200}. */
  private static final int KILLS = Integer.getInteger("gpuprocess.handover.kills", 6);

  private static final int MEBIBYTES = 80;
  private static final int LONGEST_MICROS =
      Integer.getInteger("gpuprocess.handover.micros", 400_000);

  @TempDir Path directory;

  @Test
  @Timeout(value = 5, unit = TimeUnit.MINUTES)
  void theProcessHasItsMemoryWheneverItsControllerDies() throws Exception {
    RealCriu.assume();
    Random random = new Random(7);
    try (SimulatedMachine machine = new SimulatedMachine(directory.resolve("machine"));
        Pattern job = Pattern.launch(MEBIBYTES).on(machine.driver).notOurChild().start()) {
      int open = ProcFs.openFiles(job.pid()).size();
      for (int i = 0; i < KILLS; i++) {
        int micros = random.nextInt(LONGEST_MICROS);
        kill(machine, job, micros);
        String when = "killed after " + micros + " us";
        assertTrue(job.isAlive(), when);
        List<Recovered> found = machine.checkpoints().recover();
        assertEquals(
            List.of(RecoveryOutcome.SUSPENDED), found.stream().map(Recovered::outcome).toList());
        assertEquals(List.of(), SimulatedMachine.names(machine.images()), when);
        CheckpointedProcess suspended = Objects.requireNonNull(found.get(0).suspended());
        if (i == KILLS - 1) {
          // What it still maps of the half image goes into the next one.
          suspended = suspended.dump(machine.image()).restore();
        }
        suspended.resume();
        assertEquals("ok " + ((long) MEBIBYTES << 20) + " bytes", job.verify(), when);
        assertEquals(open, ProcFs.openFiles(job.pid()).size(), when);
        ProcFs.memory(
            job.pid(), mapping -> assertFalse(mapping.name().contains("memory-1.bin"), when));
        job.touch(i + 2);
      }
    }
  }

  private static void kill(SimulatedMachine machine, Pattern job, int micros)
      throws InterruptedException {
    Process controller =
        ChildJvm.start(
            DyingHandOver.class,
            machine.temporary(),
            Map.of(),
            List.of(
                machine.driver.directory().toString(),
                machine.state().toString(),
                Long.toString(job.pid()),
                machine.image().toString(),
                Integer.toString(micros)));
    try {
      assertTrue(controller.waitFor(60, TimeUnit.SECONDS), "it dies");
      assertEquals(128 + Signals.KILL, controller.exitValue());
    } finally {
      controller.destroyForcibly();
    }
  }
}
