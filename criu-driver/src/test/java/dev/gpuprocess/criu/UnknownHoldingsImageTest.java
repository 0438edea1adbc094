package dev.gpuprocess.criu;

import static dev.gpuprocess.contract.AssertReason.assertReason;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.contract.OutsideUse;
import dev.gpuprocess.cuda.GpuUuid;
import dev.gpuprocess.error.InsufficientGpuMemoryException;
import dev.gpuprocess.fixtures.Pattern;
import dev.gpuprocess.fixtures.SimulatedDriver;
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
      assertEquals(Map.of(), image.manifest().gpuBytes());
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
}
