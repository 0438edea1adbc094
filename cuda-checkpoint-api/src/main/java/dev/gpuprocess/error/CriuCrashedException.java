package dev.gpuprocess.error;

import org.jspecify.annotations.Nullable;

/** CRIU was killed by a signal before it could answer: it has a bug, or somebody killed it. */
public class CriuCrashedException extends CriuException {

  private static final long serialVersionUID = 1L;

  private final int signal;

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   * @param criu what CRIU logged before that
   * @param signal the signal that killed it
   * @param cause what was caught, or null
   */
  public CriuCrashedException(
      String message, Failure failure, CriuFailure criu, int signal, @Nullable Throwable cause) {
    super(Reason.CRASHED, message, failure, criu, cause);
    this.signal = signal;
  }

  /** {@return the signal that killed CRIU, such as 11 for a segmentation fault} */
  public final int signal() {
    return signal;
  }
}
