package dev.gpuprocess.internal.proc;

/**
 * Recognizes the files of GPU drivers by their names. Stand-ins for tests have the same names in
 * directories of their own.
 */
public final class GpuFiles {

  private static final String NVIDIA = "/dev/nvidia";
  private static final String CUDA = "/libcuda.so";
  private static final String AMD_COMPUTE = "/dev/kfd";
  private static final String AMD_RENDER = "/dev/dri/renderD";

  private GpuFiles() {}

  /** Returns whether a path is a device file of NVIDIA's driver. */
  public static boolean isNvidiaDevice(String name) {
    return name.contains(NVIDIA);
  }

  /** Returns whether a path is a device file of an AMD GPU. */
  public static boolean isAmdDevice(String name) {
    return name.endsWith(AMD_COMPUTE) || name.contains(AMD_RENDER);
  }

  /**
   * Returns whether a process has loaded CUDA, without which it cannot use a GPU through CUDA.
   *
   * @return whether it maps libcuda or a device file of NVIDIA's driver; a checkpointed process
   *     still maps libcuda
   * @throws ProcessUnreadableException when the process may not be read
   */
  public static boolean isCudaMappedBy(int pid) {
    return !Mapping.of(
            pid, mapping -> mapping.name().contains(CUDA) || isNvidiaDevice(mapping.name()))
        .isEmpty();
  }
}
