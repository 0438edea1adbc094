package dev.gpuprocess.criu;

import static dev.gpuprocess.contract.AssertReason.assertReason;
import static dev.gpuprocess.cuda.ProcessState.CHECKPOINTED;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.contract.OutsideUse;
import dev.gpuprocess.cuda.GpuMap;
import dev.gpuprocess.cuda.GpuUuid;
import dev.gpuprocess.error.FixAndRetryException;
import dev.gpuprocess.error.InsufficientGpuMemoryException;
import dev.gpuprocess.fixtures.Pattern;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.internal.cuda.LibCuda;
import dev.gpuprocess.internal.cuda.LibNvml;
import dev.gpuprocess.options.ResumeOptions;
import java.nio.file.Path;
import java.util.Map;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** An image of a process of which it is not known what it held. */
@OutsideUse("A5")
class UnknownHoldingsImageTest {

  private static final long MIB = 1 << 20;

  @TempDir Path directory;

  @BeforeEach
  void assumeCriu() {
    RealCriu.assume();
  }

  @Test
  void dumpAndRestore_whatItHeldIsNotKnown_saysSoAndGoesOnWhenTold() {
    try (SimulatedDriver machine =
            SimulatedDriver.builder()
                .memory(256 * MIB)
                .contextMemory(16 * MIB)
                .processMemory(false)
                .create();
        Pattern pattern = Pattern.start(machine, 100)) {
      GpuCheckpoints checkpoints =
          GpuCheckpoints.builder()
              .cuda(machine.directory())
              .stateDirectory(directory.resolve("state"))
              .build();
      GpuUuid gpu = checkpoints.gpus().gpus().orElseThrow().get(0).uuid();
      ProcessImage image =
          checkpoints.process(pattern.pid()).suspend().dump(directory.resolve("image"));
      assertEquals(Map.of(), image.manifest().members().get(0).gpuBytes());
      CheckpointedProcess back = checkpoints.open(directory.resolve("image")).restore();
      InsufficientGpuMemoryException refused =
          assertReason(
              InsufficientGpuMemoryException.class,
              InsufficientGpuMemoryException.Reason.UNKNOWN_NEED,
              back::resume);
      assertTrue(refused.bound().orElseThrow() >= 100 * MIB, refused.getMessage());
      back.resume(ResumeOptions.builder().needs(Map.of(gpu, 116 * MIB)).build());
      assertEquals("ok %d bytes".formatted(100 * MIB), pattern.verify());
    }
  }

  private SimulatedDriver.Builder node(String name) {
    return SimulatedDriver.builder()
        .memory(256 * MIB)
        .contextMemory(16 * MIB)
        .processMemory(false)
        .seed(name);
  }

  /**
   * @param gpus the machine whose GPUs are seen: NVML in this JVM does not see that one changes
   */
  private GpuCheckpoints checkpoints(SimulatedDriver machine, SimulatedDriver gpus) {
    return GpuCheckpoints.builder()
        .cuda(LibCuda.in(machine.directory()), LibNvml.in(gpus.directory()))
        .stateDirectory(directory.resolve("state"))
        .build();
  }

  @Test
  void onANodeWithOtherGpus_automaticChoosesOne_andTheSameGpusAreRefused() {
    SimulatedDriver.Builder node = node("other").memory(4096 * MIB);
    try (SimulatedDriver machine = node("one").create();
        SimulatedDriver elsewhere = node.create();
        Pattern pattern = Pattern.start(machine, 100)) {
      checkpoints(machine, machine)
          .process(pattern.pid())
          .suspend()
          .dump(directory.resolve("image"));
      machine.reconfigure(node);
      GpuCheckpoints other = checkpoints(machine, elsewhere);
      CheckpointedProcess back = other.open(directory.resolve("image")).restore();
      FixAndRetryException refused =
          assertReason(
              FixAndRetryException.class, FixAndRetryException.Reason.UNKNOWN_GPU, back::resume);
      assertTrue(refused.getMessage().contains("GpuMap.automatic()"), refused.getMessage());
      assertEquals(CHECKPOINTED, other.inspect(pattern.pid()).state());
      // Another controller resumes it, which knows only the journal.
      checkpoints(machine, elsewhere)
          .resume(pattern.pid(), ResumeOptions.builder().gpus(GpuMap.automatic()).build());
      assertEquals("ok %d bytes".formatted(100 * MIB), pattern.verify());
    }
  }
}
