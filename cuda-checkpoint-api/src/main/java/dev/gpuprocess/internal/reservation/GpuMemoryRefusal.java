package dev.gpuprocess.internal.reservation;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.GpuShortage;
import dev.gpuprocess.error.InsufficientGpuMemoryException;
import java.util.OptionalLong;
import org.jspecify.annotations.Nullable;

/**
 * Why a restore would be refused now. Immutable.
 *
 * @param text what is missing on which GPU
 * @param shortage the same in numbers; null where a GPU cannot be read
 * @param isKnown false when it is not known how much the process held
 * @param bound if so, the most that it can have held on a GPU, in bytes
 */
public record GpuMemoryRefusal(
    String text, @Nullable GpuShortage shortage, boolean isKnown, OptionalLong bound) {

  /** The exception for the caller of the restore, with advice. */
  public InsufficientGpuMemoryException exception(Failure failure, String advice) {
    if (isKnown) {
      return new InsufficientGpuMemoryException(text + ": " + advice, failure, shortage);
    }
    return InsufficientGpuMemoryException.unknownNeed(
        text + ": " + advice + ", or state what it held with ResumeOptions.needs",
        failure,
        shortage,
        bound);
  }
}
