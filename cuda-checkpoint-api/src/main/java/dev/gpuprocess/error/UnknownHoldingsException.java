package dev.gpuprocess.error;

import java.util.OptionalLong;
import org.jspecify.annotations.Nullable;

/**
 * What the process held on its GPUs is not known, and there is not certainly room for it; a restore
 * now might lose the process. {@link dev.gpuprocess.options.ResumeOptions.Builder#needs} tells it.
 */
public class UnknownHoldingsException extends InsufficientGpuMemoryException {

  private static final long serialVersionUID = 1L;

  private final long bound;

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried, on whom, and what came of it
   * @param shortage what would be missing where, if the process held as much as it can have; null
   *     where that is not known either
   * @param bound the most that it can have held on one GPU, in bytes
   */
  public UnknownHoldingsException(
      String message, Failure failure, @Nullable GpuShortage shortage, OptionalLong bound) {
    super(message, failure, shortage);
    this.bound = bound.orElse(-1);
  }

  /**
   * The most that the process can have held on one GPU, by its memory on the host.
   *
   * @return in bytes; empty when that could not be read
   */
  public final OptionalLong bound() {
    return bound < 0 ? OptionalLong.empty() : OptionalLong.of(bound);
  }
}
