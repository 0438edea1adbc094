package dev.gpuprocess.criu;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.cuda.jnr.LibCuda;
import dev.gpuprocess.cuda.jnr.LibNvml;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.SimulatedDriver;
import java.nio.file.Path;
import org.jspecify.annotations.NullUnmarked;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The main job by the command line: off the GPU, onto disk, and back. */
@NullUnmarked
class CliMainJobTest {

  @TempDir Path directory;

  @Test
  void countsOnAfterDumpAndRestore() {
    try (SimulatedDriver machine = SimulatedDriver.create();
        Counter counter = Counter.start(machine)) {
      GpuCheckpoints checkpoints =
          GpuCheckpoints.builder()
              .cuda(LibCuda.in(machine.directory()), LibNvml.in(machine.directory()))
              .criu(new CliCriuDriver(RealCriu.command()))
              .stateDirectory(directory.resolve("state"))
              .build();
      Path image = directory.resolve("image");
      assertEquals(101, counter.increment());
      ProcessImage dumped = checkpoints.process(counter.pid()).suspend().dump(image);
      assertFalse(counter.isAlive());
      dumped.verify();
      RunningProcess again = checkpoints.open(image).restore().resume();
      assertEquals(counter.pid(), again.pid());
      assertEquals(102, counter.increment());
    }
  }
}
