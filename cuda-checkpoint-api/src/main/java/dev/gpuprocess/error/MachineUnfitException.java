package dev.gpuprocess.error;

import org.jspecify.annotations.Nullable;

/** This machine cannot do it for any process: give it up, or install what the message names. */
public abstract class MachineUnfitException extends GpuCheckpointException {

  private static final long serialVersionUID = 1L;

  /**
   * An error with its data.
   *
   * @param message one sentence
   * @param failure what was tried, on whom, and what came of it
   */
  protected MachineUnfitException(String message, Failure failure) {
    super(message, failure);
  }

  /**
   * An error with its data and its cause.
   *
   * @param message one sentence
   * @param failure what was tried, on whom, and what came of it
   * @param cause what was caught, or null
   */
  protected MachineUnfitException(String message, Failure failure, @Nullable Throwable cause) {
    super(message, failure, cause);
  }
}
