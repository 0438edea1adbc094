package dev.gpuprocess.internal.proc;

/** Finds out whether a process has loaded CUDA, without which it cannot use a GPU through CUDA. */
public final class CudaLibrary {

  private CudaLibrary() {}

  /**
   * Reads the mappings of a process.
   *
   * @param pid the process
   * @return whether it maps libcuda or a device file of NVIDIA's driver; a checkpointed process
   *     still maps libcuda
   * @throws ProcessUnreadableException when the process may not be read
   */
  public static boolean isMappedBy(int pid) {
    return ProcFs.memory(pid).stream()
        .anyMatch(
            mapping ->
                mapping.name().contains("/libcuda.so") || mapping.name().contains("/dev/nvidia"));
  }
}
