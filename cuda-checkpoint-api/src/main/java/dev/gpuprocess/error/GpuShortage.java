package dev.gpuprocess.error;

import dev.gpuprocess.cuda.GpuUuid;
import java.io.Serializable;
import java.util.List;

/**
 * A GPU that has too little free memory for a process. Immutable.
 *
 * @param gpu which one
 * @param neededBytes what the process held there, or the most that it can have held, plus a margin
 * @param freeBytes how much is free there
 * @param reservedBytes how much of that is reserved for restores of other processes that are under
 *     way
 * @param holders the pids that are known to hold the rest
 */
public record GpuShortage(
    GpuUuid gpu, long neededBytes, long freeBytes, long reservedBytes, List<Integer> holders)
    implements Serializable {

  /** Copies what is mutable. */
  public GpuShortage {
    holders = List.copyOf(holders);
  }
}
