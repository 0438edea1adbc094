package dev.gpuprocess.survival;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.Recovered;
import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.contract.Figures;
import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.contract.TmpFs;
import dev.gpuprocess.contract.Workload;
import dev.gpuprocess.criu.RealCriu;
import dev.gpuprocess.fixtures.Pattern;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.SaveFileMappings;
import dev.gpuprocess.options.HostMemory;
import dev.gpuprocess.report.RecoveryOutcome;
import java.io.BufferedReader;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/**
 * Controllers are killed at random instants while the copies of a process's driver are divided
 * among threads that they have started in it. The process has every byte, and nothing of them stays
 * in it once it was recovered.
 */
@RequiresRoot("mounts, and traces the process")
class DriverHookKillsTest {

  /** The number of kills; more: {@code -Dgpuprocess.hook.kills=200}. */
  private static final int KILLS = Integer.getInteger("gpuprocess.hook.kills", 6);

  private static final int MEBIBYTES = 48;
  private static final int ZEROS = 256;
  private static final String WHOLE = "ok %s bytes".formatted((long) MEBIBYTES << 20);
  private static final String THREADS = "gpu-memory-copy";
  private static final int LONGEST_MICROS = 700_000;
  private static final Duration PATIENCE = Duration.ofMinutes(1);
  private static final Set<RecoveryOutcome> UNFINISHED =
      Set.of(RecoveryOutcome.IN_USE, RecoveryOutcome.UNREACHABLE);

  @TempDir Path directory;

  @Test
  @Timeout(value = 30, unit = TimeUnit.MINUTES)
  void processLives_wheneverItsControllerDies() throws Exception {
    RealCriu.assume();
    Random random = new Random(25);
    int lost = 0;
    try (SimulatedDriver machine =
            SimulatedDriver.builder().memory(3L << 30).contextMemory(256L << 20).create();
        TmpFs memory =
            TmpFs.mountForSaveAreas(
                Files.createDirectory(directory.resolve("memory")), "size=1600m");
        Pattern pattern = Pattern.launch(MEBIBYTES).on(machine).notOurChild().start()) {
      GpuCheckpoints checkpoints =
          GpuCheckpoints.builder()
              .cuda(machine.directory())
              .stateDirectory(directory.resolve("state"))
              .hostMemory(HostMemory.in(memory.point()))
              .build();
      pattern.hold(ZEROS);
      for (int i = 0; i < KILLS; i++) {
        int micros = random.nextInt(LONGEST_MICROS);
        kill(machine, memory, pattern, i % 2 == 1, micros);
        String when = "kill %s, after %s us".formatted(i, micros);
        bringBack(checkpoints, pattern, when);
        assertEquals(WHOLE, pattern.verify(), when);
        Workload.await(() -> threads(pattern) == 0, "no thread of the hook, " + when);
        assertEquals(0, SaveFileMappings.bytes((int) pattern.pid()), when);
        // The remains of the last controller do not disturb the next one.
        RunningProcess unused = checkpoints.process(pattern.pid()).suspend().resume();
        assertEquals(WHOLE, pattern.verify(), when);
        pattern.touch(i + 2);
      }
    }
    Figures.add("driver hook: %s kills, %s lost".formatted(KILLS, lost));
  }

  private static long threads(Pattern pattern) {
    return ProcFs.tasks(pattern.pid()).stream()
        .filter(thread -> thread.name().equals(THREADS))
        .count();
  }

  private Path image() {
    return directory.resolve("images/image");
  }

  private void kill(
      SimulatedDriver machine, TmpFs memory, Pattern pattern, boolean dumps, int micros)
      throws IOException, InterruptedException {
    Process controller =
        ChildJvm.start(
            HookedController.class,
            SimulatedMachine.make(directory.resolve("tmp")),
            Map.of(),
            List.of(
                machine.directory().toString(),
                directory.resolve("state").toString(),
                Long.toString(pattern.pid()),
                image().toString(),
                memory.point().toString(),
                Boolean.toString(dumps)));
    try (BufferedReader out = controller.inputReader(StandardCharsets.UTF_8)) {
      assertEquals(HookedController.READY, out.readLine());
      long end = System.nanoTime() + micros * 1000L;
      while (System.nanoTime() < end) {
        LockSupport.parkNanos(end - System.nanoTime());
      }
    } finally {
      controller.destroyForcibly();
      assertTrue(controller.waitFor(60, TimeUnit.SECONDS), "it dies");
    }
    assertEquals(128 + Signals.KILL, controller.exitValue(), "it dies of the kill");
  }

  /** Recovers, and resumes or restores the process. */
  private void bringBack(GpuCheckpoints checkpoints, Pattern pattern, String when) {
    assertTrue(Waiting.until(PATIENCE, () -> isRecovered(checkpoints)), when);
    if (!pattern.isAlive()) {
      assertTrue(pattern.awaitExit(PATIENCE), when); // its pid is free
      ProcessImage image = checkpoints.open(image());
      RunningProcess unused = image.restore().resume();
    }
  }

  private static boolean isRecovered(GpuCheckpoints checkpoints) {
    List<Recovered> found = checkpoints.recover();
    found.stream()
        .flatMap(each -> Stream.ofNullable(each.suspended()))
        .forEach(CheckpointedProcess::close);
    return found.stream().map(Recovered::outcome).noneMatch(UNFINISHED::contains);
  }
}
