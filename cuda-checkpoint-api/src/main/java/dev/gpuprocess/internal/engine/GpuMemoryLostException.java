package dev.gpuprocess.internal.engine;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.ProcessUnfitException;
import dev.gpuprocess.report.SkippedSnapshot.Reason;

/**
 * A restore ran out of GPU memory, and the driver refuses every later restore of the process. The
 * state object that ran the verb rethrows it together with a handle to the poisoned process.
 */
public final class GpuMemoryLostException extends ProcessUnfitException {

  private static final long serialVersionUID = 1L;

  GpuMemoryLostException(String message, Failure failure) {
    super(Reason.OUT_OF_GPU_MEMORY, message, failure);
  }
}
