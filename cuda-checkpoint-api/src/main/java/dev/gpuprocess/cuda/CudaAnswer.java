package dev.gpuprocess.cuda;

import org.jspecify.annotations.Nullable;

/**
 * A driver call's result together with what it wrote, if it succeeded.
 *
 * @param <T> what the call writes
 * @param result the driver's answer
 * @param value what it wrote; null unless the result is a success
 */
public record CudaAnswer<T>(CudaResult result, @Nullable T value) {

  /**
   * An answer without a value.
   *
   * @param <T> what the call would have written
   * @param result not a success
   * @return the answer
   */
  public static <T> CudaAnswer<T> failed(CudaResult result) {
    return new CudaAnswer<>(result, null);
  }
}
