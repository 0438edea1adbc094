package dev.gpuprocess;

import static java.util.Objects.requireNonNull;

import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.ProcessUnfitException;

/** A restore ran out of GPU memory: the driver will not bring this process back any more. */
public class PoisonedProcessException extends ProcessUnfitException {

  private static final long serialVersionUID = 1L;

  private final transient PoisonedProcess process;

  PoisonedProcessException(GpuCheckpointException told, PoisonedProcess process) {
    super(requireNonNull(told.getMessage()), told.failure(), told);
    this.process = process;
  }

  /**
   * The process, which can only be ended, and come back from an image.
   *
   * @return what is left of it
   */
  public PoisonedProcess process() {
    return process;
  }
}
