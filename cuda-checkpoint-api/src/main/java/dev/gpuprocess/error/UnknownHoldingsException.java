package dev.gpuprocess.error;

import java.util.OptionalLong;
import org.jspecify.annotations.Nullable;

/**
 * It is not known how much memory the process held on its GPUs, and there may not be room for it; a
 * restore now might lose the process. State the amount with {@link
 * dev.gpuprocess.options.ResumeOptions.Builder#needs}.
 */
public class UnknownHoldingsException extends InsufficientGpuMemoryException {

  private static final long serialVersionUID = 1L;

  private final long bound;

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   * @param shortage how much would be missing on which GPU if the process held the most that it can
   *     have held; null where that is not known either
   * @param bound the most that it can have held on one GPU, in bytes
   */
  public UnknownHoldingsException(
      String message, Failure failure, @Nullable GpuShortage shortage, OptionalLong bound) {
    super(Reason.UNKNOWN_NEED, message, failure, shortage);
    this.bound = bound.orElse(-1);
  }

  /**
   * The most that the process can have held on one GPU, judged by its host memory.
   *
   * @return in bytes; empty when that could not be read
   */
  public final OptionalLong bound() {
    return bound < 0 ? OptionalLong.empty() : OptionalLong.of(bound);
  }
}
