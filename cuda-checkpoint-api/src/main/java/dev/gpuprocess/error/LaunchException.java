package dev.gpuprocess.error;

import org.jspecify.annotations.Nullable;

/** A job could not be started. Nothing of it is left. */
public class LaunchException extends FixAndRetryException {

  private static final long serialVersionUID = 1L;

  /** What stood in the way. */
  public enum Reason {
    /** The program, directory or file does not exist (ENOENT). */
    MISSING,
    /** It may not be used, or no namespace may be made (EACCES, EPERM). */
    NOT_PERMITTED,
    /** What should be a directory is none (ENOTDIR). */
    NOT_A_DIRECTORY,
    /** What should be a program is none for this machine (ENOEXEC, ELIBBAD, EISDIR). */
    NOT_A_PROGRAM,
    /** A file for input or output is a directory, a FIFO, a socket or a block device. */
    NOT_A_FILE,
    /** Arguments and environment are longer than the kernel takes (E2BIG). */
    TOO_LONG,
    /** Whoever was starting it was killed. */
    KILLED,
    /** Something else, which the message tells. */
    OTHER
  }

  private final Reason reason;

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried, and the outcome
   * @param reason what stood in the way
   * @param cause what was caught, or null
   */
  public LaunchException(
      String message, Failure failure, Reason reason, @Nullable Throwable cause) {
    super(message, failure, cause);
    this.reason = reason;
  }

  /**
   * What stood in the way.
   *
   * @return for programs; the message says what it was about
   */
  public final Reason reason() {
    return reason;
  }
}
