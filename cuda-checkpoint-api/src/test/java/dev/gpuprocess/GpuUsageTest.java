package dev.gpuprocess;

import static dev.gpuprocess.contract.AssertReason.assertReason;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.OutsideUse;
import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.contract.TestJvm;
import dev.gpuprocess.cuda.Gpu;
import dev.gpuprocess.cuda.GpuInventory;
import dev.gpuprocess.cuda.GpuReading;
import dev.gpuprocess.cuda.GpuUuid;
import dev.gpuprocess.error.InsufficientGpuMemoryException;
import dev.gpuprocess.fixtures.Fault;
import dev.gpuprocess.fixtures.Pattern;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.internal.cuda.LibNvml;
import dev.gpuprocess.internal.reservation.GpuMemoryNeed;
import dev.gpuprocess.internal.state.GpuUsage;
import dev.gpuprocess.options.ResumeOptions;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What a process held on its GPUs, where that is not known. */
@OutsideUse("A5")
@Tag("slow")
class GpuUsageTest {

  private static final long MIB = 1 << 20;
  private static final int GPU_LOST = 15;

  @TempDir Path state;
  @TempDir Path otherState;

  private static GpuUuid onlyGpu(GpuCheckpoints checkpoints) {
    return checkpoints.gpus().gpus().orElseThrow().get(0).uuid();
  }

  private static CheckpointedProcess inspect(GpuCheckpoints checkpoints, Pattern pattern) {
    return (CheckpointedProcess) checkpoints.inspect(pattern.pid());
  }

  @Test
  void otherStateDirectory_refusedUntilToldWhatItNeeds() {
    try (RoomOnGpu room = new RoomOnGpu();
        Pattern pattern = room.pattern()) {
      room.checkpoints(state).process(pattern.pid()).suspend();
      GpuCheckpoints other = room.checkpoints(otherState);
      CheckpointedProcess found = inspect(other, pattern);
      try (Pattern filler = room.pattern()) {
        assertTrue(filler.isAlive());
        InsufficientGpuMemoryException refused =
            assertReason(
                InsufficientGpuMemoryException.class,
                InsufficientGpuMemoryException.Reason.UNKNOWN_NEED,
                found::resume);
        assertTrue(
            refused.bound().orElseThrow() >= RoomOnGpu.PATTERN_MIB * MIB, refused.getMessage());
        assertTrue(refused.getMessage().contains("is not known"), refused.getMessage());
        assertTrue(refused.getMessage().contains("ResumeOptions.needs"), refused.getMessage());
        ResumeOptions told =
            ResumeOptions.builder()
                .needs(Map.of(onlyGpu(other), RoomOnGpu.PATTERN_MIB * MIB))
                .build();
        assertReason(
            InsufficientGpuMemoryException.class,
            InsufficientGpuMemoryException.Reason.NOT_FREE,
            () -> found.resume(told));
      }
      room.awaitFree(RoomOnGpu.GPU_MIB);
      // Less is free than it can have held, with a context of the largest size; but the need is
      // known.
      assertReason(
          InsufficientGpuMemoryException.class,
          InsufficientGpuMemoryException.Reason.UNKNOWN_NEED,
          found::resume);
      found.resume(
          ResumeOptions.builder()
              .needs(Map.of(onlyGpu(other), RoomOnGpu.PATTERN_MIB * MIB))
              .build());
      assertEquals(RoomOnGpu.whole(), pattern.verify());
    }
  }

  @Test
  void otherStateDirectory_withRoomForAllThatItCanHaveHeld_resumes() {
    try (SimulatedDriver machine = SimulatedDriver.create();
        Pattern pattern = Pattern.start(machine, 100)) {
      GpuCheckpoints checkpoints = on(machine, state);
      checkpoints.process(pattern.pid()).suspend();
      inspect(on(machine, otherState), pattern).resume();
      assertEquals("ok %d bytes".formatted(100 * MIB), pattern.verify());
    }
  }

  private static GpuCheckpoints on(SimulatedDriver machine, Path state) {
    return GpuCheckpoints.builder().cuda(machine.directory()).stateDirectory(state).build();
  }

  @Test
  void controllerWasKilledInACheckpoint_theJournalKnows() throws IOException {
    try (RoomOnGpu room = new RoomOnGpu();
        Pattern pattern = room.pattern()) {
      room.machine.faults(Fault.in("cuCheckpointProcessCheckpoint").after().hangs());
      GpuCheckpoints checkpoints = room.checkpoints(state);
      try (RestoringController jvm =
          RestoringController.suspending(room.machine, state, pattern.pid())) {
        room.awaitFree(RoomOnGpu.GPU_MIB);
      }
      room.machine.clearFaults();
      CheckpointedProcess found = inspect(checkpoints, pattern);
      try (Pattern filler = room.pattern()) {
        assertTrue(filler.isAlive());
        assertReason(
            InsufficientGpuMemoryException.class,
            InsufficientGpuMemoryException.Reason.NOT_FREE,
            found::resume);
      }
      room.awaitFree(RoomOnGpu.GPU_MIB);
      found.resume();
      assertEquals(RoomOnGpu.whole(), pattern.verify());
    }
  }

  @Test
  void nvmlDoesNotTellOfProcesses_refusedUntilTold() {
    try (RoomOnGpu room = new RoomOnGpu(RoomOnGpu.builder().processMemory(false));
        Pattern pattern = room.pattern()) {
      GpuCheckpoints checkpoints = room.checkpoints(state);
      Gpu.User user = checkpoints.gpus().gpus().orElseThrow().get(0).users().get(0);
      assertEquals(new Gpu.User((int) pattern.pid(), OptionalLong.empty()), user);
      CheckpointedProcess suspended = checkpoints.process(pattern.pid()).suspend();
      assertEquals(0, suspended.steps().get(1).bytes(), "not known is not -1");
      try (Pattern filler = room.pattern()) {
        assertTrue(filler.isAlive());
        assertReason(
            InsufficientGpuMemoryException.class,
            InsufficientGpuMemoryException.Reason.UNKNOWN_NEED,
            suspended::resume);
      }
      room.awaitFree(RoomOnGpu.GPU_MIB);
      suspended.resume(
          ResumeOptions.builder()
              .needs(Map.of(onlyGpu(checkpoints), RoomOnGpu.PATTERN_MIB * MIB))
              .build());
      assertEquals(RoomOnGpu.whole(), pattern.verify());
    }
  }

  @Test
  void oneGpuCannotBeRead_theOthersAreListed() {
    try (RoomOnGpu room = new RoomOnGpu(RoomOnGpu.builder().gpus(2))) {
      GpuInventory nvml = LibNvml.in(room.machine.directory());
      assertEquals(2, nvml.gpus().orElseThrow().size());
      // Once more after NVML was initialised again.
      room.machine.faults(
          Fault.in("nvmlDeviceGetMemoryInfo").call(2).answers(GPU_LOST),
          Fault.in("nvmlDeviceGetMemoryInfo").call(4).answers(GPU_LOST));
      GpuReading reading = nvml.read().orElseThrow();
      assertEquals(1, reading.gpus().size());
      assertEquals(1, reading.unreadable().size());
      assertTrue(reading.unreadable().get(0).contains("15"), reading.toString());
    }
  }

  @Test
  void oneGpuCannotBeReadAtTheCheckpoint_whatWasThereIsNotKnown() {
    try (RoomOnGpu room = new RoomOnGpu(RoomOnGpu.builder().gpus(2));
        Pattern pattern = Pattern.launch(RoomOnGpu.PATTERN_MIB).gpu(1).on(room.machine).start()) {
      GpuCheckpoints checkpoints = room.checkpoints(state);
      List<Gpu> gpus = checkpoints.gpus().gpus().orElseThrow();
      // Read once to prepare memory, again at the checkpoint, and after NVML was initialised again.
      room.machine.faults(
          Fault.in("nvmlDeviceGetMemoryInfo").call(4).answers(GPU_LOST),
          Fault.in("nvmlDeviceGetMemoryInfo").call(6).answers(GPU_LOST));
      CheckpointedProcess suspended = checkpoints.process(pattern.pid()).suspend();
      room.machine.clearFaults();
      InsufficientGpuMemoryException refused =
          assertReason(
              InsufficientGpuMemoryException.class,
              InsufficientGpuMemoryException.Reason.UNKNOWN_NEED,
              suspended::resume);
      assertEquals(gpus.get(1).uuid(), refused.shortage().orElseThrow().gpu());
      // It held nothing on the first, which was read.
      suspended.resume(
          ResumeOptions.builder()
              .needs(Map.of(gpus.get(1).uuid(), RoomOnGpu.PATTERN_MIB * MIB))
              .build());
      assertEquals(RoomOnGpu.whole(), pattern.verify());
    }
  }

  @Test
  void theGpuCannotBeReadAtTheRestore_refusedUntilItCan() {
    try (RoomOnGpu room = new RoomOnGpu();
        Pattern pattern = room.pattern()) {
      GpuCheckpoints checkpoints = room.checkpoints(state);
      CheckpointedProcess suspended = checkpoints.process(pattern.pid()).suspend();
      room.machine.faults(Fault.in("nvmlDeviceGetMemoryInfo").answers(GPU_LOST));
      InsufficientGpuMemoryException refused =
          assertThrows(InsufficientGpuMemoryException.class, suspended::resume);
      assertTrue(refused.getMessage().contains("NVML cannot read"), refused.getMessage());
      room.machine.clearFaults();
      suspended.resume();
      assertEquals(RoomOnGpu.whole(), pattern.verify());
    }
  }

  @Test
  void thereIsNoNvml_goesOnWithoutALook() {
    try (RoomOnGpu room = new RoomOnGpu();
        Pattern pattern = room.pattern()) {
      GpuCheckpoints checkpoints = room.checkpoints(state, LibNvml.in(otherState));
      checkpoints.process(pattern.pid()).suspend().resume();
      assertEquals(RoomOnGpu.whole(), pattern.verify());
    }
  }

  @Test
  void anotherControllerSuspendedItAnew_itsHoldingsCount() {
    try (RoomOnGpu room = new RoomOnGpu();
        Pattern pattern = Pattern.start(room.machine, 16)) {
      GpuCheckpoints checkpoints = room.checkpoints(state);
      checkpoints.process(pattern.pid()).suspend();
      CheckpointedProcess old = inspect(checkpoints, pattern);
      inspect(checkpoints, pattern).resume();
      pattern.allocate(RoomOnGpu.PATTERN_MIB);
      checkpoints.process(pattern.pid()).suspend();
      // It leaves 98 MiB: room for the 32 that were held then, with the margin, not for 102.
      try (Pattern filler = Pattern.start(room.machine, 54)) {
        assertTrue(filler.isAlive());
        // An object of another line, which was made when the process held less.
        assertThrows(RuntimeException.class, old::resume);
      }
      room.awaitFree(RoomOnGpu.GPU_MIB);
      inspect(checkpoints, pattern).resume();
      assertTrue(pattern.verify().startsWith("ok "));
    }
  }

  @Test
  void holdings_ofAReading() {
    GpuUuid one = GpuUuid.of("GPU-00000000-0000-0000-0000-000000000001");
    GpuUuid other = GpuUuid.of("GPU-00000000-0000-0000-0000-000000000002");
    int self = (int) ProcessHandle.current().pid();
    Gpu withUs = gpu(one, new Gpu.User(self, OptionalLong.of(7)));
    Gpu without = gpu(other);
    Gpu untold = gpu(other, new Gpu.User(self, OptionalLong.empty()));
    assertEquals(
        new GpuUsage(Map.of(one, 7L), true), holdings(self, List.of(withUs, without), List.of()));
    assertEquals(
        new GpuUsage(Map.of(one, 7L, other, 0L), false),
        holdings(self, List.of(withUs, without), List.of("GPU 2: lost")));
    assertEquals(
        new GpuUsage(Map.of(one, 7L), false), holdings(self, List.of(withUs, untold), List.of()));
    assertEquals(GpuUsage.UNKNOWN, holdings(self, List.of(without), List.of()));
    assertEquals(GpuUsage.UNKNOWN, GpuUsage.of(self, Optional.empty()));
  }

  private static GpuUsage holdings(int pid, List<Gpu> gpus, List<String> unreadable) {
    return GpuUsage.of(pid, Optional.of(new GpuReading(gpus, unreadable)));
  }

  private static Gpu gpu(GpuUuid uuid, Gpu.User... users) {
    return new Gpu(uuid, "a GPU", 100, 50, List.of(users));
  }

  @Test
  void need_ofUnknownHoldings_isTheBoundWhereverItMayGo() {
    GpuUuid one = GpuUuid.of("GPU-00000000-0000-0000-0000-000000000001");
    GpuUuid other = GpuUuid.of("GPU-00000000-0000-0000-0000-000000000002");
    GpuReading reading = new GpuReading(List.of(gpu(one), gpu(other)), List.of());
    OptionalLong bound = OptionalLong.of(1000);
    GpuMemoryNeed everywhere = GpuMemoryNeed.of(GpuUsage.UNKNOWN, Map.of(), reading, bound);
    assertEquals(Map.of(one, 1000L, other, 1000L), everywhere.bytes());
    assertFalse(
        GpuMemoryNeed.of(GpuUsage.UNKNOWN, Map.of(), reading, OptionalLong.empty()).isKnown());
    GpuMemoryNeed elsewhere =
        GpuMemoryNeed.of(
            new GpuUsage(Map.of(one, 0L), false), Map.of(one, other, other, one), reading, bound);
    assertEquals(Map.of(one, 1000L), elsewhere.bytes());
    GpuMemoryNeed huge =
        GpuMemoryNeed.of(GpuUsage.of(Map.of(one, Long.MAX_VALUE)), Map.of(), reading, bound);
    assertEquals(Long.MAX_VALUE, huge.bytes().get(one), "it does not wrap around");
  }

  /** A JVM in a pid namespace of its own, of which NVML knows other pids as well. */
  @Test
  @RequiresRoot("makes a pid namespace")
  void pidsOfAnotherNamespace_areNotTakenForOurs() throws Exception {
    try (RoomOnGpu room = new RoomOnGpu();
        Pattern outside = Pattern.start(room.machine, 16)) {
      assertTrue(outside.isAlive());
      Process jvm =
          new ProcessBuilder(
                  TestJvm.commandBy(
                      List.of("unshare", "--pid", "--fork", "--mount-proc", "--kill-child"),
                      GpuUsageInNamespace.class,
                      room.machine.directory().toString()))
              .redirectError(ProcessBuilder.Redirect.INHERIT)
              .start();
      try {
        assertEquals(List.of("an unknown amount", "true"), jvm.inputReader().lines().toList());
        assertTrue(jvm.waitFor(30, TimeUnit.SECONDS));
      } finally {
        jvm.destroyForcibly();
      }
    }
  }
}
