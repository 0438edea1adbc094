package dev.gpuprocess.internal.reservation;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.contract.OutsideUse;
import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.contract.SaveAreaMemory;
import dev.gpuprocess.contract.Workload;
import dev.gpuprocess.cuda.CudaResult;
import dev.gpuprocess.fixtures.Pattern;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.internal.cuda.LibCuda;
import dev.gpuprocess.options.HostMemory;
import dev.gpuprocess.report.ProcessIdentity;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.OptionalLong;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The bound for the GPU memory of a checkpointed process, from its host memory. */
@OutsideUse("A5")
class SaveAreaBoundTest {

  private static final long MIB = 1 << 20;
  private static final Duration PATIENCE = Duration.ofSeconds(20);

  private static long bound(long pid, boolean oneGpu) {
    ProcessIdentity process = ProcessIdentity.of(pid).orElseThrow();
    return SaveAreaBound.bound(process, oneGpu, PATIENCE).orElseThrow()
        - SaveAreaBound.CONTEXT_BYTES;
  }

  @Test
  void bound_checkpointed_isTheAreaAndLittleMore() {
    try (SimulatedDriver machine = SimulatedDriver.builder().saveOverhead(16 * MIB).create();
        Pattern pattern = Pattern.start(machine, 100)) {
      LibCuda cuda = LibCuda.in(machine.directory());
      long before = bound(pattern.pid(), true);
      assertEquals(CudaResult.SUCCESS, cuda.lock((int) pattern.pid(), 0));
      assertEquals(CudaResult.SUCCESS, cuda.checkpoint((int) pattern.pid()));
      long bound = bound(pattern.pid(), true);
      // Other memory may be adjacent on both sides.
      assertTrue(bound >= 116 * MIB && bound <= 120 * MIB + 2 * before, before + ", then " + bound);
      assertTrue(bound <= bound(pattern.pid(), false), "the bound of several GPUs is not smaller");
      assertEquals(CudaResult.SUCCESS, cuda.restore((int) pattern.pid(), Map.of()));
      assertTrue(bound(pattern.pid(), true) <= before + MIB, "unmapped as a whole");
    }
  }

  @Test
  @RequiresRoot("to trace the process")
  void bound_areaIsInAFile_countsItLikeMemoryOfItsOwn(@TempDir Path state) {
    try (SimulatedDriver machine = SimulatedDriver.create();
        Pattern pattern = Pattern.launch(160).on(machine).notOurChild().start()) {
      GpuCheckpoints checkpoints =
          GpuCheckpoints.builder()
              .cuda(machine.directory())
              .hostMemory(HostMemory.in(SaveAreaMemory.directory()))
              .stateDirectory(state)
              .build();
      try (CheckpointedProcess suspended = checkpoints.process(pattern.pid()).suspend()) {
        assertTrue(bound(suspended.pid(), true) >= 160 * MIB, "with one GPU");
        assertTrue(bound(suspended.pid(), false) >= 160 * MIB, "with several GPUs");
      }
    }
  }

  @Test
  @RequiresRoot("to trace the process")
  void bound_zerosAreNotKept_countsThem(@TempDir Path state) {
    try (SimulatedDriver machine = SimulatedDriver.create();
        Pattern pattern = Pattern.launch(80).on(machine).notOurChild().start()) {
      pattern.hold(320);
      GpuCheckpoints checkpoints =
          GpuCheckpoints.builder()
              .cuda(machine.directory())
              .hostMemory(HostMemory.in(SaveAreaMemory.directory()))
              .stateDirectory(state)
              .build();
      try (CheckpointedProcess suspended = checkpoints.process(pattern.pid()).suspend()) {
        assertTrue(bound(suspended.pid(), true) >= 400 * MIB, "with one GPU");
        assertTrue(bound(suspended.pid(), false) >= 400 * MIB, "with several GPUs");
      }
    }
  }

  @Test
  void bound_heapAndStack_areNotCounted(@TempDir Path directory) {
    try (Workload large = Workload.counter(directory, 64)) {
      long stretch = bound(large.pid(), true);
      assertTrue(stretch >= 64 * MIB && stretch < bound(large.pid(), false), stretch + "");
    }
  }

  @Test
  void bound_processIsGone_isNotKnown() {
    Workload gone = Workload.of("sleep", "60");
    ProcessIdentity process = ProcessIdentity.of(gone.pid()).orElseThrow();
    gone.close();
    assertEquals(OptionalLong.empty(), SaveAreaBound.bound(process, true, PATIENCE));
  }
}
