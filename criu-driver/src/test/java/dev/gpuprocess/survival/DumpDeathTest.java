package dev.gpuprocess.survival;

import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.Recovered;
import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.criu.RealCriu;
import dev.gpuprocess.fixtures.Pattern;
import dev.gpuprocess.internal.linux.Processes;
import dev.gpuprocess.internal.proc.Mapping;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.internal.proc.SaveFileMappings;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.report.RecoveryOutcome;
import dev.gpuprocess.report.Step;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/**
 * A controller is killed at any moment of a suspend and dump while it writes the GPU memory into
 * the image, names it for CRIU, and has CRIU dump the process. The process has its bytes, nothing
 * of the controller stays in it, and it can be dumped by another one.
 */
@RequiresRoot("traces the process")
class DumpDeathTest {

  /** The number of kills; more: {@code -Dgpuprocess.dump.kills=200}. */
  private static final int KILLS = Integer.getInteger("gpuprocess.dump.kills", 3);

  private static final int MEBIBYTES = 80;
  private static final int LONGEST_MICROS = Integer.getInteger("gpuprocess.dump.micros", 200_000);
  private static final Duration PATIENCE = Duration.ofMinutes(1);

  private static final Set<RecoveryOutcome> UNFINISHED =
      Set.of(RecoveryOutcome.IN_USE, RecoveryOutcome.UNREACHABLE);

  /** The steps in order. The image gets its name at the end of the write. */
  private static final List<String> STEPS = List.of("checkpoint", "write", "dump");

  @TempDir Path directory;
  private SimulatedMachine machine;
  private Pattern job;

  @BeforeEach
  void start() {
    RealCriu.assume();
    machine = new SimulatedMachine(directory.resolve("machine"));
    job = Pattern.launch(MEBIBYTES).on(machine.driver).notOurChild().start();
  }

  @AfterEach
  void end() {
    if (job != null) {
      job.close();
    }
    if (machine != null) {
      machine.close();
    }
  }

  private void assertRight(String when) {
    assertEquals("ok " + ((long) MEBIBYTES << 20) + " bytes", job.verify(), when);
  }

  private static List<String> steps(ProcessImage image) {
    return image.steps().stream().map(Step::name).toList();
  }

  @Test
  @Timeout(value = 5, unit = TimeUnit.MINUTES)
  void theProcessHasItsMemoryWheneverItsControllerDies() throws Exception {
    Random random = new Random(7);
    int open = ProcFs.openFiles(job.pid()).size();
    for (int i = 0; i < KILLS; i++) {
      String step = STEPS.get(i % STEPS.size());
      int micros = random.nextInt(LONGEST_MICROS);
      String when = "killed %d us after %s began".formatted(micros, step);
      kill(step, micros);
      assertTrue(job.isAlive(), when);
      Optional<CheckpointedProcess> suspended = recovered(when);
      assertEquals(List.of(), SimulatedMachine.names(machine.images()), when);
      // One that had not come to the checkpoint was unlocked.
      assertTrue(suspended.isPresent() || step.equals("checkpoint"), when);
      if (suspended.isPresent() && i % 2 == 1 && !step.equals("checkpoint")) {
        suspended = Optional.of(suspended.get().dump(machine.image()).restore());
      }
      suspended.ifPresent(CheckpointedProcess::close);
      assertRight(when);
      assertEquals(open, ProcFs.openFiles(job.pid()).size(), when);
      assertEquals(List.of(), SaveFileMappings.candidates((int) job.pid()), when);
      machine.removeImages();
      job.touch(i + 2);
    }
  }

  /** Returns the process that a recovery leaves suspended, when no verb works on it. */
  private Optional<CheckpointedProcess> recovered(String when) {
    List<CheckpointedProcess> suspended = new ArrayList<>();
    await(when)
        .atMost(PATIENCE)
        .until(
            () -> {
              List<Recovered> found = machine.checkpoints().recover();
              found.stream()
                  .flatMap(each -> Stream.ofNullable(each.suspended()))
                  .forEach(suspended::add);
              return found.stream().map(Recovered::outcome).noneMatch(UNFINISHED::contains);
            });
    return suspended.stream().findFirst();
  }

  /** The memory is in files that only the process maps: they are opened through it. */
  @Test
  void whatADeadControllerHasSuspendedIsDumpedByAnotherOne() throws Exception {
    kill("write", 0);
    List<Mapping> saved = SaveFileMappings.candidates((int) job.pid());
    assertFalse(saved.isEmpty());
    for (Mapping each : saved) {
      assertTrue(SaveFileMappings.isDeleted(each.name()), each.name());
    }
    List<Recovered> found = machine.checkpoints().recover();
    ProcessImage image = Objects.requireNonNull(found.get(0).suspended()).dump(machine.image());
    assertEquals(List.of("write", "seal", "dump"), steps(image), image.steps()::toString);
    assertEquals(1, image.manifest().memoryFiles().size());
    image.restore().resume();
    assertRight("dumped by another controller");
  }

  /** The controller did not report the mappings of the driver. */
  @Test
  void whatWasCheckpointedWhenItsControllerDiedIsDumpedByAnotherOne() throws Exception {
    FaultPoints moments = new FaultPoints();
    machine.checkpoints(moments, false).process(job.pid()).suspend().resume();
    int checkpointed =
        moments.seen().indexOf(WatchedDriver.AFTER + "cuCheckpointProcessCheckpoint");
    kill(Integer.toString(checkpointed), 0);
    CheckpointedProcess suspended = recovered("killed after the checkpoint").orElseThrow();
    ProcessImage image = suspended.dump(machine.image());
    assertEquals(List.of("write", "seal", "dump"), steps(image), image.steps()::toString);
    assertEquals(1, image.manifest().memoryFiles().size());
    image.restore().resume();
    assertRight("dumped by another controller");
  }

  /** A recovery releases what the controllers took. */
  @Test
  void theNamesOfADeadControllerAreRemovedByARecovery() throws Exception {
    kill("dump", 0);
    CheckpointedProcess suspended = recovered("killed when CRIU began").orElseThrow();
    assertEquals(List.of(), SimulatedMachine.names(machine.memory()));
    suspended.resume();
    assertRight("resumed");
  }

  /** A controller stops CRIU before it kills it, and may die before the kill. */
  @Test
  void aCriuThatADeadControllerHasStoppedIsContinuedByARecovery() throws Exception {
    kill(DyingDump.SEAL, 0);
    ProcessIdentity criu = Signals.criuOf((int) job.pid()).orElseThrow();
    assertEquals(Optional.of(true), Processes.stat(criu).map(ProcStat::isStopped));
    CheckpointedProcess suspended = recovered("killed when CRIU was stopped").orElseThrow();
    await("CRIU to end").atMost(PATIENCE).until(() -> !criu.isAlive());
    suspended.resume();
    assertRight("resumed");
  }

  private void kill(String step, int micros) throws InterruptedException {
    Process controller =
        ChildJvm.start(
            DyingDump.class,
            machine.temporary(),
            Map.of(),
            List.of(
                machine.driver.directory().toString(),
                machine.state().toString(),
                Long.toString(job.pid()),
                machine.image().toString(),
                step,
                Integer.toString(micros)));
    try {
      assertTrue(controller.waitFor(180, TimeUnit.SECONDS), "it dies");
      assertEquals(128 + Signals.KILL, controller.exitValue());
    } finally {
      controller.destroyForcibly();
    }
  }
}
