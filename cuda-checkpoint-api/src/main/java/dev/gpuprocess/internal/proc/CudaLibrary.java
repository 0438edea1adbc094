package dev.gpuprocess.internal.proc;

/** Whether a process has loaded CUDA: one that has not cannot use a GPU through it. */
public final class CudaLibrary {

  private CudaLibrary() {}

  /**
   * Looks at the mappings of a process.
   *
   * @param pid the process
   * @return whether it maps libcuda or a device file of NVIDIA's driver; a checkpointed process
   *     still maps libcuda
   * @throws dev.gpuprocess.error.ProcessUnreadableException when the process may not be looked at
   */
  public static boolean isMappedBy(int pid) {
    return ProcFs.memory(pid).stream()
        .anyMatch(
            mapping ->
                mapping.name().contains("/libcuda.so") || mapping.name().contains("/dev/nvidia"));
  }
}
