package dev.gpuprocess.error;

import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * The GPU has too little free memory for what the process held; a restore now would lose the
 * process.
 */
public class InsufficientGpuMemoryException extends RetryLaterException {

  private static final long serialVersionUID = 1L;

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
    super(message, failure, null);
    this.shortage = shortage;
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
