package dev.gpuprocess.internal.room;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.GpuShortage;
import dev.gpuprocess.error.InsufficientGpuMemoryException;
import dev.gpuprocess.error.UnknownHoldingsException;
import java.util.OptionalLong;
import org.jspecify.annotations.Nullable;

/**
 * Why a restore is refused now.
 *
 * @param text what is missing where
 * @param shortage the same in numbers; null where a GPU cannot be read
 * @param isKnown false when what the process held is not known
 * @param bound then the most that it can have held on a GPU
 */
public record GpuMemoryRefusal(
    String text, @Nullable GpuShortage shortage, boolean isKnown, OptionalLong bound) {

  /** For who asked for the restore, with what to do about it. */
  public InsufficientGpuMemoryException exception(Failure failure, String advice) {
    if (isKnown) {
      return new InsufficientGpuMemoryException(text + ": " + advice, failure, shortage);
    }
    return new UnknownHoldingsException(
        text + ": " + advice + ", or say what it held with ResumeOptions.needs",
        failure,
        shortage,
        bound);
  }
}
