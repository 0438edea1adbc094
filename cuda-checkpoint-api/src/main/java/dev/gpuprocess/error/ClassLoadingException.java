package dev.gpuprocess.error;

import org.jspecify.annotations.Nullable;

/**
 * A class of this library could not be loaded: its files are incomplete or cannot be opened. A
 * class that could not be loaded once may stay unusable in its JVM.
 */
public class ClassLoadingException extends MachineUnfitException {

  private static final long serialVersionUID = 1L;

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   * @param cause what was caught, or null
   */
  public ClassLoadingException(String message, Failure failure, @Nullable Throwable cause) {
    super(message, failure, cause);
  }
}
