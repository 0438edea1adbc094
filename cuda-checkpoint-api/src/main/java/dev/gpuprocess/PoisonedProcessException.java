package dev.gpuprocess;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.GpuCheckpointException;

/** A restore ran out of GPU memory: the driver will not bring this process back any more. */
public class PoisonedProcessException extends GpuCheckpointException {

  private static final long serialVersionUID = 1L;

  private final transient PoisonedProcess process;

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried, on whom, and what came of it
   * @param process what is left of the process
   */
  public PoisonedProcessException(String message, Failure failure, PoisonedProcess process) {
    super(message, failure);
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
