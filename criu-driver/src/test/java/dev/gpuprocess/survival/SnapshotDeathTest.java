package dev.gpuprocess.survival;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.Recovered;
import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.contract.TmpFs;
import dev.gpuprocess.criu.FileTree;
import dev.gpuprocess.criu.RealCriu;
import dev.gpuprocess.fixtures.Pattern;
import dev.gpuprocess.options.HostMemory;
import dev.gpuprocess.report.RecoveryOutcome;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * A controller is killed at any moment of a snapshot. All processes have their bytes, there is a
 * whole image or none, and neither a half one nor memory stays taken.
 */
@RequiresRoot("traces the process")
class SnapshotDeathTest {

  /** The number of kills; more: {@code -Dgpuprocess.snapshot.kills=200}. */
  private static final int KILLS = Integer.getInteger("gpuprocess.snapshot.kills", 2);

  private static final int KILLS_OF_JOBS = KILLS / 2;

  private static final int MEBIBYTES = 32;
  private static final int LONGEST_MICROS = 300_000;
  private static final long SEED = 11;
  private static final Duration PATIENCE = Duration.ofMinutes(1);
  private static final Set<RecoveryOutcome> UNFINISHED =
      Set.of(RecoveryOutcome.IN_USE, RecoveryOutcome.UNREACHABLE, RecoveryOutcome.SUSPENDED);

  /** The steps in order, which are most of a snapshot. */
  private static final List<String> STEPS =
      List.of("write", "dump", "checkpoint", "seal", "restore");

  @TempDir Path directory;

  @Test
  void whateverIsLeftOfAProcessIsMended() throws Exception {
    RealCriu.assume();
    try (SimulatedMachine machine = new SimulatedMachine(directory.resolve("machine"));
        TmpFs memory = memory();
        Pattern job = Pattern.launch(MEBIBYTES).on(machine.driver).notOurChild().start()) {
      for (int i = 0; i < KILLS; i++) {
        String when = kill(machine, job.pid(), memory.point(), i);
        assertMended(machine, memory.point(), when);
        assertTrue(job.isAlive(), when);
        assertEquals("ok " + ((long) MEBIBYTES << 20) + " bytes", job.verify(), when);
        job.touch(i + 2);
      }
    }
  }

  @Test
  void whateverIsLeftOfAJobIsMended() throws Exception {
    RealCriu.assume();
    try (SimulatedMachine machine = new SimulatedMachine(directory.resolve("machine"));
        TmpFs memory = memory();
        JobSubject job = JobSubject.startPair(machine.driver, MEBIBYTES)) {
      for (int i = 0; i < KILLS_OF_JOBS; i++) {
        String when = kill(machine, job.pid(), memory.point(), i);
        assertMended(machine, memory.point(), when);
        assertEquals(Optional.empty(), job.fault(), when);
      }
    }
  }

  private TmpFs memory() throws IOException {
    return TmpFs.mountForSaveAreas(
        Files.createDirectory(directory.resolve("memory")), "size=1500m");
  }

  private static void assertMended(SimulatedMachine machine, Path memory, String when) {
    GpuCheckpoints checkpoints =
        machine.checkpoints().toBuilder().hostMemory(HostMemory.in(memory)).build();
    assertTrue(Waiting.until(PATIENCE, () -> isRecovered(checkpoints)), when);
    assertEquals(List.of(), SimulatedMachine.names(memory), when);
    assertEquals(List.of(), machine.journal(), when);
    assertEquals(machine.imageNames(), SimulatedMachine.names(machine.images()), when);
    if (Files.exists(machine.image())) {
      checkpoints.open(machine.image()).verify();
      FileTree.remove(machine.image());
    }
  }

  /** Recovers once, and resumes the process; returns whether nothing was left to do. */
  private static boolean isRecovered(GpuCheckpoints checkpoints) {
    List<Recovered> found = checkpoints.recover();
    found.stream()
        .flatMap(each -> Stream.ofNullable(each.suspended()))
        .distinct()
        .forEach(CheckpointedProcess::close);
    return found.stream().map(Recovered::outcome).noneMatch(UNFINISHED::contains);
  }

  /** Returns when it was. */
  private static String kill(SimulatedMachine machine, long pid, Path memory, int number)
      throws InterruptedException {
    String step = STEPS.get(number % STEPS.size());
    int micros = new Random(SEED + number).nextInt(LONGEST_MICROS);
    Process controller =
        ChildJvm.start(
            DyingSnapshot.class,
            machine.temporary(),
            Map.of(),
            List.of(
                machine.driver.directory().toString(),
                machine.state().toString(),
                Long.toString(pid),
                machine.image().toString(),
                memory.toString(),
                step,
                Integer.toString(micros)));
    try {
      assertTrue(controller.waitFor(180, TimeUnit.SECONDS), "it dies");
      assertEquals(128 + Signals.KILL, controller.exitValue());
    } finally {
      controller.destroyForcibly();
    }
    return "killed %d us after %s began".formatted(micros, step);
  }
}
