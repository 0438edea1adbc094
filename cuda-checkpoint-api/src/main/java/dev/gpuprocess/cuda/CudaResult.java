package dev.gpuprocess.cuda;

import java.io.Serializable;

/**
 * An answer of the driver ({@code CUresult}): its number, its name and the driver's own text.
 *
 * <p>Two results are equal when their numbers are, whatever the texts of different drivers say. A
 * number that this library does not know is handled like any other, with the name that the driver
 * gives it.
 *
 * @param code the number, 0 for success
 * @param name the driver's name, such as {@code CUDA_ERROR_NOT_READY}
 * @param text the driver's description
 */
public record CudaResult(int code, String name, String text) implements Serializable {

  /** The call succeeded. */
  public static final CudaResult SUCCESS = new CudaResult(0, "CUDA_SUCCESS", "no error");

  /** A GPU pair names a GPU that the process does not use. */
  public static final CudaResult INVALID_VALUE =
      new CudaResult(1, "CUDA_ERROR_INVALID_VALUE", "invalid argument");

  /** The GPU has no room for the memory to restore. */
  public static final CudaResult OUT_OF_MEMORY =
      new CudaResult(2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory");

  /** The process has no CUDA state. */
  public static final CudaResult NOT_INITIALIZED =
      new CudaResult(3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error");

  /** The driver cannot reach the process: gone, not permitted, or poisoned. */
  public static final CudaResult OPERATING_SYSTEM =
      new CudaResult(304, "CUDA_ERROR_OPERATING_SYSTEM", "OS call failed");

  /** The process is in a state where this call is not legal. */
  public static final CudaResult ILLEGAL_STATE =
      new CudaResult(401, "CUDA_ERROR_ILLEGAL_STATE", "the operation is illegal in this state");

  /** The lock timed out: GPU work of the process did not end in time. */
  public static final CudaResult NOT_READY =
      new CudaResult(600, "CUDA_ERROR_NOT_READY", "device not ready");

  /** The process uses something that the driver cannot checkpoint, such as managed memory. */
  public static final CudaResult NOT_SUPPORTED =
      new CudaResult(801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported");

  /**
   * Tells whether the call succeeded.
   *
   * @return true for {@link #SUCCESS}
   */
  public boolean ok() {
    return code == 0;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof CudaResult that && that.code == code;
  }

  @Override
  public int hashCode() {
    return code;
  }

  @Override
  public String toString() {
    return name + " (" + code + ": " + text + ")";
  }
}
