package dev.gpuprocess.error;

import org.jspecify.annotations.Nullable;

/** CRIU failed; {@link #criu()} has its answer and the lines of its log that matter. */
public class CriuException extends FixAndRetryException implements CriuReport {

  private static final long serialVersionUID = 1L;

  /** How CRIU failed. */
  public enum Reason implements GpuCheckpointException.Reason {
    /** CRIU answered that the operation failed; the message has the first error of its log. */
    FAILED,

    /**
     * CRIU was killed by a signal before it could answer: it has a bug, or another process killed
     * it.
     */
    CRASHED,

    /** CRIU lacks a capability that it needs here. */
    MISSING_CAPABILITY,

    /**
     * The process tree has something that CRIU cannot dump, or only with an option that was not
     * given.
     */
    UNSUPPORTED_RESOURCE
  }

  private final Reason reason;
  private final transient CriuFailure criu;

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   * @param criu what CRIU answered and logged
   * @param cause what was caught, or null
   */
  public CriuException(
      String message, Failure failure, CriuFailure criu, @Nullable Throwable cause) {
    this(Reason.FAILED, message, failure, criu, cause);
  }

  /**
   * Creates the exception.
   *
   * @param reason how CRIU failed
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   * @param criu what CRIU answered and logged
   * @param cause what was caught, or null
   */
  protected CriuException(
      Reason reason, String message, Failure failure, CriuFailure criu, @Nullable Throwable cause) {
    super(reason, message, failure, cause);
    this.reason = reason;
    this.criu = criu;
  }

  /**
   * Returns how CRIU failed.
   *
   * @return for programs; {@link #criu()} has the details
   */
  @Override
  public final Reason reason() {
    return reason;
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
