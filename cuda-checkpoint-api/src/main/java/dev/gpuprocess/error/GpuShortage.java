package dev.gpuprocess.error;

import dev.gpuprocess.gpu.GpuUuid;
import java.util.List;

/**
 * A GPU that has no room for a process.
 *
 * @param gpu which one
 * @param neededBytes what the process held there, or can have held at most, and a margin
 * @param freeBytes what is free there
 * @param reservedBytes what restores of other processes that are under way will take of that
 * @param holders the pids that are known to hold the rest
 */
public record GpuShortage(
    GpuUuid gpu, long neededBytes, long freeBytes, long reservedBytes, List<Integer> holders) {

  /** Copies what is mutable. */
  public GpuShortage {
    holders = List.copyOf(holders);
  }
}
