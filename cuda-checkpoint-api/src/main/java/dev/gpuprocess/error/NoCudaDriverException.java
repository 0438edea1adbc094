package dev.gpuprocess.error;

import org.jspecify.annotations.Nullable;

/** There is no usable libcuda on this machine. */
public class NoCudaDriverException extends MachineUnfitException {

  private static final long serialVersionUID = 1L;

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   * @param cause what was caught, or null
   */
  public NoCudaDriverException(String message, Failure failure, @Nullable Throwable cause) {
    super(message, failure, cause);
  }
}
