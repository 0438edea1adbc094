package dev.gpuprocess.survival;

import static dev.gpuprocess.contract.AssertReason.assertReason;
import static java.util.concurrent.TimeUnit.SECONDS;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.Recovered;
import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.contract.OutsideUse;
import dev.gpuprocess.criu.RealCriu;
import dev.gpuprocess.error.FixAndRetryException;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.Timeouts;
import dev.gpuprocess.report.RecoveryOutcome;
import dev.gpuprocess.report.StepListener;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.function.Supplier;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The disk of an image hangs: the process does not wait for it. */
class HungDiskTest {

  private static final Duration LIMIT = Duration.ofSeconds(3);

  /** For a dump that must come to a certain step before. */
  private static final Duration AMPLE = Duration.ofSeconds(25);

  private static final Timeouts TIMEOUTS =
      Timeouts.builder()
          .lock(Duration.ofSeconds(10))
          .call(Duration.ofSeconds(10))
          .transfer(Duration.ofSeconds(20))
          .build();

  @TempDir Path directory;

  /** Hangs the disk when a step begins. */
  private static GpuCheckpoints hangingAt(String step, SimulatedMachine machine, LoopMount disk) {
    return machine.checkpoints().toBuilder()
        .timeouts(TIMEOUTS)
        .listener(
            new StepListener() {
              @Override
              public void started(String name, int pid) {
                if (name.equals(step)) {
                  disk.hang();
                }
              }
            })
        .build();
  }

  @ParameterizedTest
  @ValueSource(strings = {"write", "seal"})
  void dump_diskHangsInAStep_processGoesOnAndTheImageIsTakenBack(String step) throws Exception {
    RealCriu.assume();
    try (SimulatedMachine machine = new SimulatedMachine(directory.resolve("machine"));
        LoopMount disk = LoopMount.in(directory);
        Subject subject = Subject.start(machine.driver)) {
      Path image = disk.path().resolve("image");
      CheckpointedProcess suspended =
          hangingAt(step, machine, disk).process(subject.pid()).suspend();
      long began = System.nanoTime();
      OperationTimedOutException late =
          assertThrows(
              OperationTimedOutException.class,
              () -> suspended.dump(image, DumpOptions.builder().deadline(AMPLE).build()));
      assertTrue(System.nanoTime() - began < AMPLE.plusSeconds(30).toNanos());
      assertTrue(late.getMessage().contains(image.toString()), late.getMessage());
      suspended.resume();
      assertEquals(Optional.empty(), subject.fault());
      assertEquals(1, GpuCheckpoints.abandonedCalls());

      disk.goOn();
      await().atMost(20, SECONDS).until(() -> GpuCheckpoints.abandonedCalls() == 0);
      await()
          .atMost(20, SECONDS)
          .untilAsserted(
              () -> assertEquals(List.of("lost+found"), SimulatedMachine.names(disk.path())));
      await().atMost(20, SECONDS).until(() -> machine.journal().isEmpty());
    }
  }

  @Test
  void dump_diskHangsBefore_processGoesOn() throws Exception {
    RealCriu.assume();
    try (SimulatedMachine machine = new SimulatedMachine(directory.resolve("machine"));
        LoopMount disk = LoopMount.in(directory);
        Subject subject = Subject.start(machine.driver)) {
      CheckpointedProcess suspended = machine.checkpoints().process(subject.pid()).suspend();
      disk.hang();
      assertThrows(
          OperationTimedOutException.class,
          () ->
              suspended.dump(
                  disk.path().resolve("image"), DumpOptions.builder().deadline(LIMIT).build()));
      suspended.resume();
      assertEquals(Optional.empty(), subject.fault());

      disk.goOn();
      await()
          .atMost(20, SECONDS)
          .untilAsserted(
              () -> assertEquals(List.of("lost+found"), SimulatedMachine.names(disk.path())));
      await().atMost(20, SECONDS).until(() -> GpuCheckpoints.abandonedCalls() == 0);
      await().atMost(20, SECONDS).until(() -> machine.journal().isEmpty());
    }
  }

  @Test
  @OutsideUse("A20")
  void recover_diskOfAHalfImageHangs_processIsMendedFirst() throws Exception {
    RealCriu.assume();
    try (SimulatedMachine machine = new SimulatedMachine(directory.resolve("machine"));
        LoopMount disk = LoopMount.in(directory);
        Subject subject = Subject.start(machine.driver)) {
      DyingDumper.run(machine, subject, disk.path().resolve("image").toString());
      assertEquals(2, SimulatedMachine.names(disk.path()).size(), "a half image and lost+found");
      await().atMost(20, SECONDS).until(() -> machine.criu().isEmpty());
      disk.hang();
      // On a thread of its own, so that the disk goes on also when this hangs.
      List<Recovered> found =
          CompletableFuture.supplyAsync(
                  () -> machine.checkpoints().toBuilder().timeouts(TIMEOUTS).build().recover())
              .get(90, SECONDS);
      assertEquals(RecoveryOutcome.SUSPENDED, found.get(0).outcome());
      Objects.requireNonNull(found.get(0).suspended()).resume();
      assertEquals(Optional.empty(), subject.fault());

      disk.goOn();
      await()
          .atMost(20, SECONDS)
          .untilAsserted(
              () -> assertEquals(List.of("lost+found"), SimulatedMachine.names(disk.path())));
      await().atMost(20, SECONDS).until(() -> GpuCheckpoints.abandonedCalls() == 0);
    }
  }

  /** Runs on a thread of its own, so that the disk recovers even if the test hangs. */
  private static <T> T inTime(Supplier<T> body) throws Exception {
    return CompletableFuture.supplyAsync(body).get(40, SECONDS);
  }

  @Test
  @OutsideUse("A20")
  void stateDirectoryHangs_nothingWaitsForItAndTheProcessComesBack() throws Exception {
    try (SimulatedMachine machine = new SimulatedMachine(directory.resolve("machine"));
        LoopMount disk = LoopMount.in(directory);
        Subject subject = Subject.start(machine.driver)) {
      GpuCheckpoints checkpoints =
          machine.checkpoints().toBuilder()
              .timeouts(TIMEOUTS)
              .stateDirectory(disk.path().resolve("state"))
              .build();
      CheckpointedProcess suspended = checkpoints.process(subject.pid()).suspend();
      disk.hang();
      try {
        RunningProcess running = inTime(suspended::resume);
        FixAndRetryException refused =
            inTime(
                () ->
                    assertReason(
                        FixAndRetryException.class,
                        FixAndRetryException.Reason.STATE_DIRECTORY,
                        running::lock));
        assertTrue(refused.getMessage().contains("hangs"), refused.getMessage());
        inTime(() -> assertThrows(GpuCheckpointException.class, checkpoints::recover));
        String found = inTime(checkpoints::doctor).toString();
        assertTrue(found.contains("its file system hangs"), found);
        assertEquals(Optional.empty(), subject.fault());
      } finally {
        disk.goOn();
      }
      await().atMost(20, SECONDS).until(() -> GpuCheckpoints.abandonedCalls() == 0);
      checkpoints.process(subject.pid()).suspend().resume();
      assertEquals(Optional.empty(), subject.fault());
      assertEquals(List.of(), checkpoints.recover());
    }
  }
}
