package dev.gpuprocess.error;

import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * The GPU has too little free memory for what the process held; a restore now would lose the
 * process.
 */
public class InsufficientGpuMemoryException extends RetryLaterException {

  private static final long serialVersionUID = 1L;

  /** What is known about the missing memory. */
  public enum Reason implements GpuCheckpointException.Reason {
    /** The process held more on a GPU than is free there now. */
    NOT_FREE,

    /**
     * It is not known how much memory the process held on its GPUs, and there may not be enough.
     * State the amount with {@link dev.gpuprocess.options.ResumeOptions.Builder#needs}.
     */
    UNKNOWN_NEED
  }

  private final Reason reason;
  private final transient @Nullable GpuShortage shortage;

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   * @param shortage how much is missing on which GPU; null when only the driver knows, or a GPU
   *     cannot be read
   */
  public InsufficientGpuMemoryException(
      String message, Failure failure, @Nullable GpuShortage shortage) {
    this(Reason.NOT_FREE, message, failure, shortage);
  }

  InsufficientGpuMemoryException(
      Reason reason, String message, Failure failure, @Nullable GpuShortage shortage) {
    super(reason, message, failure, null);
    this.reason = reason;
    this.shortage = shortage;
  }

  /**
   * Returns what is known about the missing memory.
   *
   * @return for programs; {@link #shortage()} has the numbers
   */
  @Override
  public final Reason reason() {
    return reason;
  }

  /**
   * How much is missing on which GPU.
   *
   * @return the numbers, and the processes that hold the rest; empty when only the driver knows, or
   *     a GPU cannot be read
   */
  public final Optional<GpuShortage> shortage() {
    return Optional.ofNullable(shortage);
  }
}
