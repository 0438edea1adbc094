package dev.gpuprocess.error;

import dev.gpuprocess.internal.text.Printable;
import org.jspecify.annotations.Nullable;

/**
 * The root of everything this library throws. The message is one sentence that says what is wrong
 * and what to do; {@link #failure()} is the data behind it.
 */
public abstract class GpuCheckpointException extends RuntimeException {

  private static final long serialVersionUID = 1L;

  private final transient Failure failure;

  /**
   * An error with its data and its cause.
   *
   * @param message one sentence; what could be mistaken in a terminal or a log is escaped
   * @param failure what was tried on which process, and the outcome
   * @param cause what was caught, or null
   */
  protected GpuCheckpointException(String message, Failure failure, @Nullable Throwable cause) {
    // In it may be names from outside.
    super(Printable.of(message), cause);
    this.failure = failure;
  }

  /**
   * What was tried, on which process, and what came of it.
   *
   * @return the data behind the message
   */
  public final Failure failure() {
    return failure;
  }
}
