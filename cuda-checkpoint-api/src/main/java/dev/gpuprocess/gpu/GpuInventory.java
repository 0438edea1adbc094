package dev.gpuprocess.gpu;

import java.util.List;
import java.util.Optional;

/** What GPUs there are and how much of their memory is free. May be asked from any thread. */
public interface GpuInventory {

  /**
   * Looks at every GPU.
   *
   * @return the GPUs that can be read, as they are now; empty when this cannot be known here
   */
  Optional<List<Gpu>> gpus();

  /**
   * Looks at every GPU, and tells what could not be read. A restore onto a GPU that is there and
   * cannot be read is refused; where there is no inventory at all, nothing is checked.
   *
   * @return the GPUs as they are now, and why others are missing; empty when there is nothing here
   *     that could tell
   */
  default Optional<GpuReading> read() {
    return gpus().map(gpus -> new GpuReading(gpus, List.of()));
  }

  /**
   * The version of the NVIDIA driver, such as {@code 580.159.04}.
   *
   * @return empty when this cannot be known here
   */
  Optional<String> driverVersion();
}
