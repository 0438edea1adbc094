package dev.gpuprocess.examples.demo;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.internal.cuda.LibCuda;
import dev.gpuprocess.internal.cuda.LibNvml;
import java.nio.file.Path;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The conditions for the use of a real driver. */
class MachineTest {

  private static Optional<String> whyUnusable(SimulatedDriver.Builder builder) {
    try (SimulatedDriver driver = builder.create()) {
      return Machine.whyUnusable(LibCuda.in(driver.directory()), LibNvml.in(driver.directory()));
    }
  }

  @Test
  void acceptsDriver570WithAGpu() {
    assertEquals(Optional.empty(), whyUnusable(SimulatedDriver.builder().driverVersion(12080)));
  }

  @Test
  void refusesAnOlderDriver() {
    String why = whyUnusable(SimulatedDriver.builder().driverVersion(12040)).orElseThrow();
    assertTrue(why.contains("CUDA 12.4"), why);
  }

  @Test
  void refusesADriverWithoutGpu() {
    assertEquals(Optional.of("NVML finds no GPU"), whyUnusable(SimulatedDriver.builder().gpus(0)));
  }

  @Test
  void refusesAMissingDriver(@TempDir Path empty) {
    assertEquals(
        Optional.of("there is no NVIDIA driver here"),
        Machine.whyUnusable(LibCuda.in(empty), LibNvml.in(empty)));
  }
}
