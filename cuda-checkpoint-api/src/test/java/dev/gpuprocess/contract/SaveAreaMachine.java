package dev.gpuprocess.contract;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.options.HostMemory;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * A simulated machine whose save areas are on a tmpfs of its own. Needs root.
 *
 * @param memory the tmpfs
 * @param driver the simulated driver
 * @param checkpoints the settings with both
 */
public record SaveAreaMachine(TmpFs memory, SimulatedDriver driver, GpuCheckpoints checkpoints)
    implements AutoCloseable {

  /**
   * Makes one, or aborts the test where no tmpfs can be mounted.
   *
   * @param directory in which the tmpfs and the state directory are made
   * @param options of the tmpfs, such as {@code size=900m}
   * @param driver the simulated driver, closed with the machine
   * @return the machine
   */
  public static SaveAreaMachine in(Path directory, String options, SimulatedDriver.Builder driver)
      throws IOException {
    TmpFs memory =
        TmpFs.mountForSaveAreas(Files.createDirectory(directory.resolve("memory")), options);
    try {
      SimulatedDriver made = driver.create();
      Path state = directory.resolve("state");
      return new SaveAreaMachine(
          memory, made, checkpoints(made.directory(), state, memory.point()));
    } catch (RuntimeException | Error e) {
      memory.close();
      throw e;
    }
  }

  /**
   * Makes the settings of a controller on such a machine.
   *
   * @param driver the directory of the simulated driver
   * @param state the state directory
   * @param memory the directory for save areas
   * @return the settings
   */
  public static GpuCheckpoints checkpoints(Path driver, Path state, Path memory) {
    return GpuCheckpoints.builder()
        .cuda(driver)
        .hostMemory(HostMemory.in(memory))
        .stateDirectory(state)
        .build();
  }

  @Override
  public void close() {
    driver.close();
    memory.close();
  }
}
