package dev.gpuprocess.error;

import org.jspecify.annotations.Nullable;

/** CRIU could not do what it was asked; {@link #criu()} says what it left behind. */
public class CriuException extends FixAndRetryException implements CriuReport {

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
  public CriuException(
      String message, Failure failure, CriuFailure criu, @Nullable Throwable cause) {
    super(message, failure, cause);
    this.criu = criu;
  }

  /**
   * What CRIU answered and logged.
   *
   * @return the data behind the message
   */
  @Override
  public final CriuFailure criu() {
    return criu;
  }
}
