package dev.gpuprocess.error;

import java.util.Optional;
import java.util.OptionalLong;
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

  private static final long NOT_KNOWN = -1;

  private final @Nullable GpuShortage shortage;
  private final long bound;

  /**
   * Creates the exception with reason {@link Reason#NOT_FREE}.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   * @param shortage how much is missing on which GPU; null when only the driver knows, or a GPU
   *     cannot be read
   */
  public InsufficientGpuMemoryException(
      String message, Failure failure, @Nullable GpuShortage shortage) {
    this(Reason.NOT_FREE, message, failure, shortage, NOT_KNOWN);
  }

  private InsufficientGpuMemoryException(
      Reason reason, String message, Failure failure, @Nullable GpuShortage shortage, long bound) {
    super(reason, message, failure, null);
    this.shortage = shortage;
    this.bound = bound;
  }

  /**
   * Creates the exception with reason {@link Reason#UNKNOWN_NEED}.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   * @param shortage how much would be missing on which GPU if the process held the most that it can
   *     have held; null where that is not known either
   * @param bound the most that the process can have held on one GPU, in bytes
   * @return the exception
   */
  public static InsufficientGpuMemoryException unknownNeed(
      String message, Failure failure, @Nullable GpuShortage shortage, OptionalLong bound) {
    return new InsufficientGpuMemoryException(
        Reason.UNKNOWN_NEED, message, failure, shortage, bound.orElse(NOT_KNOWN));
  }

  /**
   * Returns what is known about the missing memory.
   *
   * @return for programs; {@link #shortage()} has the numbers
   */
  @Override
  public final Reason reason() {
    return (Reason) super.reason();
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

  /**
   * Returns the most that the process can have held on one GPU, judged by its host memory.
   *
   * @return in bytes; empty when that could not be read, or when the need of the process is known
   */
  public final OptionalLong bound() {
    return bound == NOT_KNOWN ? OptionalLong.empty() : OptionalLong.of(bound);
  }
}
