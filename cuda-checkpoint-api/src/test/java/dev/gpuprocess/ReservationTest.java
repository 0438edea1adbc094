package dev.gpuprocess;

import static java.util.concurrent.TimeUnit.SECONDS;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.OutsideUse;
import dev.gpuprocess.cuda.CudaDriver;
import dev.gpuprocess.cuda.GpuUuid;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.InsufficientGpuMemoryException;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.fixtures.Fault;
import dev.gpuprocess.fixtures.Pattern;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.internal.call.StateReading;
import dev.gpuprocess.internal.cuda.LibCuda;
import dev.gpuprocess.internal.reservation.Reservations;
import dev.gpuprocess.internal.reservation.ReservedMemory;
import dev.gpuprocess.internal.state.NamedLock;
import dev.gpuprocess.internal.state.StateDirectory;
import dev.gpuprocess.options.ResumeOptions;
import dev.gpuprocess.options.Timeouts;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.Stream;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Room on a GPU is given to one restore at a time. */
@OutsideUse("A4")
@Tag("slow")
class ReservationTest {

  private static final String RESTORE = "cuCheckpointProcessRestore";

  @TempDir Path state;

  private static CheckpointedProcess suspend(GpuCheckpoints checkpoints, Pattern pattern) {
    return checkpoints.process(pattern.pid()).suspend();
  }

  private static List<ReservedMemory> claims(Path state) {
    return new Reservations(new StateDirectory(state), Duration.ZERO, process -> true).look();
  }

  private static void awaitClaims(Path state, int count) {
    await().atMost(30, SECONDS).until(() -> claims(state).size() == count);
  }

  @Test
  void twoThreadsResumeWhereOneFits_oneIsRefusedAndNoneIsPoisoned() throws IOException {
    try (RoomOnGpu room = new RoomOnGpu();
        Pattern one = room.pattern()) {
      GpuCheckpoints checkpoints = room.checkpoints(state);
      CheckpointedProcess first = suspend(checkpoints, one);
      try (Pattern other = room.pattern()) {
        CheckpointedProcess second = suspend(checkpoints, other);
        room.machine.faults(Fault.in(RESTORE).pid(one.pid()).hangs());
        CompletableFuture<RunningProcess> resumed = CompletableFuture.supplyAsync(first::resume);
        awaitClaims(state, 1);
        InsufficientGpuMemoryException refused =
            assertThrows(InsufficientGpuMemoryException.class, second::resume);
        assertTrue(refused.shortage().orElseThrow().reservedBytes() > 0, refused.getMessage());
        assertTrue(
            refused.getMessage().contains("other restores are about to take"),
            refused.getMessage());
        room.machine.clearFaults();
        resumed.join();
        assertEquals(RoomOnGpu.whole(), one.verify());
        assertThrows(InsufficientGpuMemoryException.class, second::resume);
        one.close();
        room.awaitFree(RoomOnGpu.GPU_MIB);
        second.resume();
        assertEquals(RoomOnGpu.whole(), other.verify());
      }
    }
    assertEquals(List.of(), claims(state));
  }

  @Test
  void twoThreadsResumeWhereBothFit_bothAreRestoredAtATime() {
    SimulatedDriver.Builder large =
        SimulatedDriver.builder().memory(1L << 30).contextMemory(16L << 20);
    try (RoomOnGpu room = new RoomOnGpu(large);
        Pattern one = room.pattern();
        Pattern other = room.pattern()) {
      GpuCheckpoints checkpoints = room.checkpoints(state);
      CheckpointedProcess first = suspend(checkpoints, one);
      CheckpointedProcess second = suspend(checkpoints, other);
      room.machine.faults(Fault.in(RESTORE).hangs());
      CompletableFuture<RunningProcess> firstResumed = CompletableFuture.supplyAsync(first::resume);
      CompletableFuture<RunningProcess> secondResumed =
          CompletableFuture.supplyAsync(second::resume);
      awaitClaims(state, 2);
      room.machine.clearFaults();
      firstResumed.join();
      secondResumed.join();
      assertEquals(RoomOnGpu.whole(), one.verify());
      assertEquals(RoomOnGpu.whole(), other.verify());
    }
  }

  @Test
  void otherJvmRestores_oneIsRefusedAndTheRoomIsFreeWhenItIsKilled() throws IOException {
    try (RoomOnGpu room = new RoomOnGpu();
        Pattern one = room.pattern()) {
      GpuCheckpoints checkpoints = room.checkpoints(state);
      suspend(checkpoints, one);
      try (Pattern other = room.pattern()) {
        CheckpointedProcess second = suspend(checkpoints, other);
        room.machine.faults(Fault.in(RESTORE).pid(one.pid()).hangs());
        try (RestoringController jvm =
            RestoringController.resuming(room.machine, state, one.pid())) {
          assertThrows(InsufficientGpuMemoryException.class, second::resume);
        }
        // The process counts as restored by the dead JVM until its state is read.
        second.resume(ResumeOptions.builder().waitForMemory(Duration.ofSeconds(30)).build());
        assertEquals(RoomOnGpu.whole(), other.verify());
        try (Stream<Path> files = Files.walk(state)) {
          assertFalse(files.anyMatch(file -> file.getFileName().toString().startsWith("room")));
        }
        room.machine.clearFaults();
        other.close();
        room.awaitFree(RoomOnGpu.GPU_MIB);
        ((CheckpointedProcess) checkpoints.inspect(one.pid())).resume();
        assertEquals(RoomOnGpu.whole(), one.verify());
      }
    }
  }

  @Test
  void holderDiedWhileTheDriverStillRestores_theRoomIsKeptUntilThatHasEnded() throws IOException {
    StateDirectory directory = new StateDirectory(state);
    ProcessIdentity restored = ProcessIdentity.of(ProcessHandle.current().pid()).orElseThrow();
    GpuUuid gpu = GpuUuid.of("GPU-00000000-0000-0000-0000-000000000001");
    ReservedMemory claim = ReservedMemory.of(restored, Map.of(gpu, 7L));
    try (NamedLock ofTheDead = directory.tryLock("room-of-the-dead", "restore").orElseThrow()) {
      ofTheDead.note(claim.text());
    }
    AtomicBoolean over = new AtomicBoolean();
    Reservations reservations = new Reservations(directory, Duration.ZERO, process -> over.get());
    Duration patience = Duration.ofSeconds(30);
    assertEquals(List.of(claim), reservations.alone(1, patience, List::copyOf));
    assertEquals(List.of(claim), reservations.alone(1, patience, List::copyOf));
    over.set(true);
    assertEquals(List.of(), reservations.alone(1, patience, List::copyOf));
    assertFalse(directory.lockNames().contains("room-of-the-dead"));
  }

  @Test
  void processInTheMiddleOfARestore_isNotIdle() {
    try (RoomOnGpu room = new RoomOnGpu();
        Pattern one = room.pattern()) {
      CheckpointedProcess suspended = suspend(room.checkpoints(state), one);
      CudaDriver driver = LibCuda.in(room.machine.directory());
      await()
          .atMost(30, SECONDS)
          .until(() -> StateReading.isIdle(driver, suspended.identity().pid()));
      room.machine.faults(Fault.in(RESTORE).during().hangs());
      CompletableFuture<RunningProcess> resumed = CompletableFuture.supplyAsync(suspended::resume);
      await()
          .atMost(30, SECONDS)
          .until(() -> !StateReading.isIdle(driver, suspended.identity().pid()));
      room.machine.clearFaults();
      resumed.join();
    }
  }

  @Test
  void twoWait_theRoomIsWonByOneAfterTheOther() {
    try (RoomOnGpu room = new RoomOnGpu();
        Pattern one = room.pattern()) {
      GpuCheckpoints checkpoints = room.checkpoints(state);
      CheckpointedProcess first = suspend(checkpoints, one);
      try (Pattern other = room.pattern()) {
        CheckpointedProcess second = suspend(checkpoints, other);
        ResumeOptions patient = ResumeOptions.builder().waitForMemory(Duration.ofDays(1)).build();
        CompletableFuture<?> either =
            CompletableFuture.anyOf(
                CompletableFuture.supplyAsync(() -> first.resume(patient).pid()),
                CompletableFuture.supplyAsync(() -> second.resume(patient).pid()));
        long winner = ((Integer) either.join()).longValue();
        Pattern won = winner == one.pid() ? one : other;
        Pattern waits = winner == one.pid() ? other : one;
        assertEquals(RoomOnGpu.whole(), won.verify());
        won.close();
        assertEquals(RoomOnGpu.whole(), waits.verify());
      }
    }
  }

  @Test
  void restoreThatIsLeftBehind_keepsItsRoomUntilItEnds() {
    try (RoomOnGpu room = new RoomOnGpu();
        Pattern one = room.pattern()) {
      GpuCheckpoints checkpoints = room.checkpoints(state);
      suspend(checkpoints, one);
      try (Pattern other = room.pattern()) {
        CheckpointedProcess second = suspend(checkpoints, other);
        room.machine.faults(Fault.in(RESTORE).pid(one.pid()).hangs());
        Duration patience = Duration.ofSeconds(30);
        GpuCheckpoints hasty =
            checkpoints.toBuilder()
                .timeouts(
                    Timeouts.builder()
                        .lock(patience)
                        .call(patience)
                        .transfer(Duration.ofMillis(200))
                        .build())
                .build();
        CheckpointedProcess first = (CheckpointedProcess) hasty.inspect(one.pid());
        assertThrows(OperationTimedOutException.class, first::resume);
        assertThrows(InsufficientGpuMemoryException.class, second::resume);
        room.machine.clearFaults();
        awaitClaims(state, 0);
        // The late process was resumed, since its caller had given up.
        await()
            .atMost(30, SECONDS)
            .ignoreExceptions()
            .until(() -> checkpoints.inspect(one.pid()).state() == ProcessState.RUNNING);
        assertEquals(RoomOnGpu.whole(), one.verify());
      }
    }
  }

  @Test
  void stateDirectoryCannotBeUsed_theJvmKnowsItsOwnRestores() throws IOException {
    try (RoomOnGpu room = new RoomOnGpu();
        Pattern one = room.pattern()) {
      GpuCheckpoints checkpoints = room.checkpoints(state);
      CheckpointedProcess first = suspend(checkpoints, one);
      try (Pattern other = room.pattern()) {
        CheckpointedProcess second = suspend(checkpoints, other);
        try (Stream<Path> files = Files.walk(state)) {
          for (Path file : files.sorted((a, b) -> b.compareTo(a)).toList()) {
            Files.delete(file);
          }
        }
        Files.createFile(state);
        room.machine.faults(Fault.in(RESTORE).pid(one.pid()).hangs());
        CompletableFuture<RunningProcess> resumed = CompletableFuture.supplyAsync(first::resume);
        awaitClaims(state, 1);
        assertThrows(InsufficientGpuMemoryException.class, second::resume);
        room.machine.clearFaults();
        resumed.join();
        assertEquals(RoomOnGpu.whole(), one.verify());
      }
    }
  }
}
