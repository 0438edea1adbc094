package dev.gpuprocess.cuda;

import org.jspecify.annotations.Nullable;

/**
 * The result of a driver call together with the value that it wrote, if it succeeded. Immutable.
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
