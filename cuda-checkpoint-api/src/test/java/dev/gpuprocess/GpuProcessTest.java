package dev.gpuprocess;

import static dev.gpuprocess.contract.AssertReason.assertReason;
import static java.util.concurrent.TimeUnit.SECONDS;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.NativeCalls;
import dev.gpuprocess.cuda.CudaResult;
import dev.gpuprocess.cuda.GpuMap;
import dev.gpuprocess.cuda.GpuUuid;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.FixAndRetryException;
import dev.gpuprocess.error.GpuShortage;
import dev.gpuprocess.error.InsufficientGpuMemoryException;
import dev.gpuprocess.error.LockTimeoutException;
import dev.gpuprocess.error.MachineUnfitException;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.error.NotCudaProcessException;
import dev.gpuprocess.error.OperationInProgressException;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.error.ProcessUnfitException;
import dev.gpuprocess.error.StaleStateException;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.Fault;
import dev.gpuprocess.fixtures.Pattern;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.fixtures.SimulatedGpu;
import dev.gpuprocess.fixtures.Workload;
import dev.gpuprocess.internal.engine.StateHandle;
import dev.gpuprocess.internal.engine.TrackedProcess;
import dev.gpuprocess.internal.engine.TrackedTree;
import dev.gpuprocess.internal.state.GpuUsage;
import dev.gpuprocess.options.ResumeOptions;
import dev.gpuprocess.options.Timeouts;
import dev.gpuprocess.report.ProcessIdentity;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The typed states of one CUDA process over the simulated driver; see {@link GpuTreeTest}. */
@SimulatedGpu(mebibytes = 1024)
record GpuProcessTest(SimulatedDriver machine, GpuCheckpoints checkpoints) {

  private static final int MIB = 1 << 20;

  private void assertRuns(Counter counter, int next) {
    assertInstanceOf(RunningProcess.class, checkpoints.inspect(counter.pid()));
    assertEquals(next, counter.increment());
  }

  private static long freeBytes(GpuCheckpoints checkpoints) {
    return checkpoints.gpus().gpus().orElseThrow().get(0).freeBytes();
  }

  @Test
  void handedOnProcessIsNotTouchedByClose(Counter counter) {
    CheckpointedProcess suspended;
    try (LockedProcess locked = checkpoints.process(counter.pid()).lock()) {
      suspended = locked.checkpoint();
    }
    assertInstanceOf(CheckpointedProcess.class, checkpoints.inspect(counter.pid()));
    suspended.close();
    assertRuns(counter, 101);
  }

  @Test
  void closeIsQuietWhenTheProcessHasEnded() {
    Counter counter = Counter.start(machine);
    LockedProcess locked = checkpoints.process(counter.pid()).lock();
    counter.close();
    assertTrue(counter.awaitExit(Duration.ofSeconds(30)));
    locked.close();
    assertThrows(StaleStateException.class, locked::unlock);
  }

  @Test
  void noSuchProcess() {
    Workload idle = Workload.idle();
    long gone = idle.pid();
    idle.close();
    assertTrue(idle.awaitExit(Duration.ofSeconds(30)));
    for (long pid : new long[] {gone, 0, -1, 1L << 40}) {
      NoSuchProcessException e =
          assertThrows(NoSuchProcessException.class, () -> checkpoints.process(pid));
      assertEquals(pid, e.failure().pid());
    }
  }

  @Test
  void recycledPid(Counter counter) {
    ProcessIdentity now = ProcessIdentity.of(counter.pid()).orElseThrow();
    ProcessIdentity earlier = new ProcessIdentity(now.pid(), now.startTicks() - 1);
    TrackedProcess target = new TrackedProcess(checkpoints.context(), earlier, GpuUsage.UNKNOWN);
    RunningProcess stranger =
        new RunningProcess(
            StateHandle.next(
                TrackedTree.of(target.context, target.identity, List.of(target)), List.of()));
    NoSuchProcessException e = assertThrows(NoSuchProcessException.class, stranger::lock);
    assertTrue(e.getMessage().contains("belongs to another process now"), e.getMessage());
    assertRuns(counter, 101);
  }

  @Test
  void processWithoutCuda() {
    try (Workload idle = Workload.idle()) {
      NotCudaProcessException e =
          assertThrows(NotCudaProcessException.class, () -> checkpoints.process(idle.pid()));
      assertEquals(CudaResult.NOT_INITIALIZED, e.failure().cudaResult());
    }
  }

  @Test
  void anotherControllerMovedTheProcess(Counter counter) {
    RunningProcess running = checkpoints.process(counter.pid());
    try (LockedProcess theirs = checkpoints.process(counter.pid()).lock()) {
      StaleStateException e = assertThrows(StaleStateException.class, running::lock);
      assertEquals(ProcessState.LOCKED, e.failure().after());
      assertEquals(ProcessState.LOCKED, theirs.state());
    }
    running.lock().close();
    assertRuns(counter, 101);
  }

  @Test
  void lockTimesOutAndTheProcessRunsOn(Counter counter) {
    RunningProcess running = checkpoints.process(counter.pid());
    LockTimeoutException e = null;
    for (int seconds = 3; e == null; seconds *= 2) {
      counter.spin(Duration.ofSeconds(seconds));
      try {
        running = running.lock(Duration.ofMillis(100)).unlock(); // the kernel had ended
      } catch (LockTimeoutException busy) {
        e = busy;
      }
    }
    assertEquals(ProcessState.RUNNING, e.failure().after());
    assertTrue(e.failure().elapsed().toMillis() >= 100);
    assertRuns(counter, 101);
  }

  @Test
  void impossibleLockTimeoutsAreRefused(Counter counter) {
    RunningProcess running = checkpoints.process(counter.pid());
    assertThrows(IllegalArgumentException.class, () -> running.lock(Duration.ofSeconds(-1)));
  }

  @Test
  void managedMemoryCannotBeSuspended(Counter counter) {
    counter.allocateManaged();
    ProcessUnfitException e =
        assertReason(
            ProcessUnfitException.class,
            ProcessUnfitException.Reason.UNSUPPORTED_BY_DRIVER,
            () -> checkpoints.process(counter.pid()).suspend());
    assertEquals(ProcessState.RUNNING, e.failure().before());
    assertEquals(ProcessState.RUNNING, e.failure().after());
    assertTrue(e.getMessage().endsWith("; pid " + counter.pid() + " is running again"));
    assertRuns(counter, 101);
  }

  @Test
  void abandonedLockIsUndoneWhenItComesLate(Counter counter) {
    GpuCheckpoints hasty =
        checkpoints.toBuilder()
            .timeouts(
                Timeouts.builder()
                    .lock(Duration.ofMillis(100))
                    .call(Duration.ofSeconds(6))
                    .transfer(Duration.ofMinutes(1))
                    .build())
            .build();
    machine.faults(Fault.in("cuCheckpointProcessLock").after().hangs());
    RunningProcess running = hasty.process(counter.pid());
    assertThrows(OperationTimedOutException.class, running::lock);
    // The call has not returned: no other verb may touch the process.
    assertThrows(OperationInProgressException.class, running::lock);
    machine.clearFaults();
    await()
        .atMost(20, SECONDS)
        .ignoreExceptionsInstanceOf(OperationInProgressException.class)
        .until(() -> checkpoints.inspect(counter.pid()) instanceof RunningProcess);
    assertRuns(counter, 101);
    NativeCalls.awaitNoneLeftBehind();
  }

  @Test
  void twoVerbsOnOneProcessAreRefusedAndOnTwoRunInParallel() {
    try (Counter busy = Counter.start(machine);
        Counter free = Counter.start(machine)) {
      machine.faults(Fault.in("cuCheckpointProcessLock").pid(busy.pid()).hangs());
      RunningProcess running = checkpoints.process(busy.pid());
      CompletableFuture<LockedProcess> waiting = CompletableFuture.supplyAsync(running::lock);
      await()
          .atMost(20, SECONDS)
          .until(() -> checkpoints.doctor(busy.pid()).toString().contains("lock is at work"));
      RunningProcess same = checkpoints.process(busy.pid());
      assertThrows(OperationInProgressException.class, same::lock);
      checkpoints.process(free.pid()).suspend().close();
      assertEquals(101, free.increment());
      machine.clearFaults();
      waiting.join().close();
      assertRuns(busy, 101);
    }
  }

  @Test
  void unknownGpuInAPair(Counter counter) {
    CheckpointedProcess suspended = checkpoints.process(counter.pid()).suspend();
    GpuUuid here = checkpoints.gpus().gpus().orElseThrow().get(0).uuid();
    GpuUuid nowhere = GpuUuid.of("GPU-00000000-1111-2222-3333-444444444444");
    assertReason(
        FixAndRetryException.class,
        FixAndRetryException.Reason.UNKNOWN_GPU,
        () -> suspended.restore(GpuMap.of(Map.of(nowhere, here))));
    suspended.resume();
    assertRuns(counter, 101);
  }

  @Test
  void noRoomOnTheGpuIsNoticedBeforeTheProcessIsLost() {
    try (RoomOnGpu room = new RoomOnGpu();
        Pattern pattern = room.pattern()) {
      GpuCheckpoints there = room.checkpoints(machine.stateDirectory());
      CheckpointedProcess suspended = there.process(pattern.pid()).suspend();
      try (Pattern filler = room.pattern()) {
        InsufficientGpuMemoryException e =
            assertThrows(InsufficientGpuMemoryException.class, suspended::resume);
        assertTrue(e.getMessage().contains(Long.toString(filler.pid())), e.getMessage());
        GpuShortage shortage = e.shortage().orElseThrow();
        assertEquals(List.of((int) filler.pid()), shortage.holders());
        assertEquals(freeBytes(there), shortage.freeBytes());
        assertTrue(
            shortage.neededBytes() > (long) RoomOnGpu.PATTERN_MIB * MIB, shortage.toString());
      }
      room.awaitFree(RoomOnGpu.GPU_MIB);
      suspended.resume();
      assertEquals(RoomOnGpu.whole(), pattern.verify());
    }
  }

  @Test
  void resumeWaitsForMemory() {
    try (RoomOnGpu room = new RoomOnGpu();
        Pattern pattern = room.pattern()) {
      CheckpointedProcess suspended =
          room.checkpoints(machine.stateDirectory()).process(pattern.pid()).suspend();
      Pattern filler = room.pattern();
      CompletableFuture<RunningProcess> resumed =
          CompletableFuture.supplyAsync(
              () ->
                  suspended.resume(
                      ResumeOptions.builder().waitForMemory(Duration.ofSeconds(30)).build()));
      filler.close();
      resumed.join();
      assertEquals(RoomOnGpu.whole(), pattern.verify());
    }
  }

  @Test
  void inspectKnowsWhatTheProcessHeldFromTheJournal() {
    try (RoomOnGpu room = new RoomOnGpu();
        Pattern pattern = room.pattern()) {
      GpuCheckpoints there = room.checkpoints(machine.stateDirectory());
      there.process(pattern.pid()).suspend();
      try (Pattern filler = room.pattern()) {
        assertTrue(filler.isAlive());
        CheckpointedProcess found = (CheckpointedProcess) there.inspect(pattern.pid());
        assertThrows(InsufficientGpuMemoryException.class, found::restore);
      }
      room.awaitFree(RoomOnGpu.GPU_MIB);
      ((CheckpointedProcess) there.inspect(pattern.pid())).resume();
      assertEquals(RoomOnGpu.whole(), pattern.verify());
    }
  }

  @Test
  void restoreThatRunsOutOfGpuMemoryLosesTheProcess(Counter counter) {
    CheckpointedProcess suspended = checkpoints.process(counter.pid()).suspend();
    machine.faults(Fault.in("cuCheckpointProcessRestore").answers(2));
    PoisonedProcessException e = assertThrows(PoisonedProcessException.class, suspended::restore);
    assertEquals(CudaResult.OUT_OF_MEMORY, e.failure().cudaResult());
    assertThrows(StaleStateException.class, suspended::restore);
    e.process().end();
    assertTrue(counter.awaitExit(Duration.ofSeconds(30)));
  }

  @Test
  void errorWithoutATypeOfItsOwnKeepsItsNumber(Counter counter) {
    RunningProcess running = checkpoints.process(counter.pid());
    machine.faults(Fault.in("cuCheckpointProcessLock").answers(999));
    ProcessUnfitException e =
        assertReason(
            ProcessUnfitException.class, ProcessUnfitException.Reason.DRIVER_ERROR, running::lock);
    assertEquals(999, e.failure().cudaResult().code());
    assertRuns(counter, 101);
  }

  @Test
  void driverTooOld() {
    try (SimulatedDriver old = SimulatedDriver.builder().driverVersion(12_040).create();
        Workload idle = Workload.idle()) {
      MachineUnfitException e =
          assertReason(
              MachineUnfitException.class,
              MachineUnfitException.Reason.DRIVER_TOO_OLD,
              () -> checkpoints.toBuilder().cuda(old.directory()).build().process(idle.pid()));
      assertTrue(e.getMessage().contains("12.4"), e.getMessage());
      assertTrue(e.getMessage().contains("cuCheckpointProcessGetState"), e.getMessage());
      assertTrue(e.getMessage().contains("570"), e.getMessage());
    }
  }

  @Test
  void noDriverAtAll(@TempDir Path empty) {
    GpuCheckpoints without = checkpoints.toBuilder().cuda(empty).build();
    try (Workload idle = Workload.idle()) {
      MachineUnfitException e =
          assertReason(
              MachineUnfitException.class,
              MachineUnfitException.Reason.NO_CUDA_DRIVER,
              () -> without.process(idle.pid()));
      assertTrue(e.getMessage().contains("GPUPROCESS_DRIVER_DIR"), e.getMessage());
      assertTrue(without.gpus().gpus().isEmpty());
    }
  }
}
