package dev.gpuprocess.internal.engine;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.ProcessUnfitException;

/**
 * A restore ran out of GPU memory, and the driver will not bring the process back any more. The
 * state object whose verb it was gives it to the user together with what is left of the process.
 */
public final class GpuMemoryLostException extends ProcessUnfitException {

  private static final long serialVersionUID = 1L;

  GpuMemoryLostException(String message, Failure failure) {
    super(message, failure);
  }
}
