package dev.gpuprocess.cuda;

import java.util.List;
import java.util.Optional;

/** What GPUs there are and how much of their memory is free. May be asked from any thread. */
public interface GpuInventory {

  /**
   * Looks at every GPU.
   *
   * @return the GPUs as they are now; empty when this cannot be known here
   */
  Optional<List<Gpu>> gpus();

  /**
   * The version of the NVIDIA driver, such as {@code 580.159.04}.
   *
   * @return empty when this cannot be known here
   */
  Optional<String> driverVersion();
}
