package dev.gpuprocess.error;

import org.jspecify.annotations.Nullable;

/** An image was made on a CPU that can do more than this one, or lays out its registers else. */
public class CpuMismatchException extends MachineUnfitException implements CriuReport {

  private static final long serialVersionUID = 1L;

  private final transient CriuFailure criu;

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried, on whom, and what came of it
   * @param criu what CRIU answered and logged
   * @param cause what was caught, or null
   */
  public CpuMismatchException(
      String message, Failure failure, CriuFailure criu, @Nullable Throwable cause) {
    super(message, failure, cause);
    this.criu = criu;
  }

  @Override
  public final CriuFailure criu() {
    return criu;
  }
}
