package dev.gpuprocess.error;

import org.jspecify.annotations.Nullable;

/**
 * This machine cannot do it for any process: use another machine, or install what the message
 * names.
 */
public abstract class MachineUnfitException extends GpuCheckpointException {

  private static final long serialVersionUID = 1L;

  /**
   * An error with its data and its cause.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   * @param cause what was caught, or null
   */
  protected MachineUnfitException(String message, Failure failure, @Nullable Throwable cause) {
    super(message, failure, cause);
  }
}
