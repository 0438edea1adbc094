package dev.gpuprocess.internal.reservation;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.GpuShortage;
import dev.gpuprocess.error.InsufficientGpuMemoryException;
import java.util.OptionalLong;
import org.jspecify.annotations.Nullable;

/**
 * The reason why a restore would be refused now. Immutable.
 *
 * @param text the shortage in words
 * @param shortage the shortage in numbers; null if a GPU cannot be read
 * @param isKnown false if the usage of the process is unknown
 * @param bound for an unknown usage, the most bytes that the process can have used on a GPU
 */
public record GpuMemoryRefusal(
    String text, @Nullable GpuShortage shortage, boolean isKnown, OptionalLong bound) {

  /** Returns the exception for the caller of the restore, with advice. */
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
