package dev.gpuprocess.error;

import java.util.Optional;
import org.jspecify.annotations.Nullable;

/** The GPU has no room for what the process held; a restore now would lose the process. */
public class InsufficientGpuMemoryException extends RetryLaterException {

  private static final long serialVersionUID = 1L;

  private final transient @Nullable GpuShortage shortage;

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried, on whom, and what came of it
   * @param shortage what is missing where; null when only the driver knows, or a GPU cannot be read
   */
  public InsufficientGpuMemoryException(
      String message, Failure failure, @Nullable GpuShortage shortage) {
    super(message, failure, null);
    this.shortage = shortage;
  }

  /**
   * What is missing where.
   *
   * @return both numbers, and who holds the rest; empty when only the driver knows, or a GPU cannot
   *     be read
   */
  public final Optional<GpuShortage> shortage() {
    return Optional.ofNullable(shortage);
  }
}
