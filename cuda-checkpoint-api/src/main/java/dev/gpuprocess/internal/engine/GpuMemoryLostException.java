package dev.gpuprocess.internal.engine;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.ProcessUnfitException;

/**
 * A restore ran out of GPU memory, and the driver will never bring the process back. The state
 * object that ran the verb rethrows it together with a handle to what is left of the process.
 */
public final class GpuMemoryLostException extends ProcessUnfitException {

  private static final long serialVersionUID = 1L;

  GpuMemoryLostException(String message, Failure failure) {
    super(Reason.OUT_OF_GPU_MEMORY, message, failure);
  }
}
