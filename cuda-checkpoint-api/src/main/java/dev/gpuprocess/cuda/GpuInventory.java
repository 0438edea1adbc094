package dev.gpuprocess.cuda;

import java.util.List;
import java.util.Optional;

/**
 * Which GPUs there are and how much of their memory is free. All methods may be called from any
 * thread and at the same time, and throw nothing.
 */
public interface GpuInventory {

  /**
   * Lists the GPUs.
   *
   * @return the GPUs that can be read, as they are now; empty when this cannot be found out here
   */
  Optional<List<Gpu>> gpus();

  /**
   * Lists the GPUs and what could not be read. A restore onto a GPU that exists but cannot be read
   * is refused; where there is no inventory at all, free memory is not checked.
   *
   * @return the GPUs as they are now, and why others are missing; empty when nothing here can tell
   */
  default Optional<GpuReading> read() {
    return gpus().map(gpus -> new GpuReading(gpus, List.of()));
  }

  /**
   * The version of the NVIDIA driver, such as {@code 580.159.04}.
   *
   * @return empty when this cannot be found out here
   */
  Optional<String> driverVersion();
}
