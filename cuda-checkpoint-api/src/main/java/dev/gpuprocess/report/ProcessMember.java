package dev.gpuprocess.report;

import dev.gpuprocess.cuda.GpuUuid;
import dev.gpuprocess.cuda.ProcessState;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * A process with CUDA state in the tree of a {@link dev.gpuprocess.GpuProcess}, or in an image of
 * one. Immutable.
 *
 * @param process its pid and start time
 * @param command its arguments, program first; empty when it has just ended, and in an image
 * @param gpuBytes how many bytes it holds on each GPU, or held when it was checkpointed; empty
 *     where that is not known
 * @param state where it was when this library last looked, or in the image; null where that is not
 *     known
 */
public record ProcessMember(
    ProcessIdentity process,
    List<String> command,
    Map<GpuUuid, Long> gpuBytes,
    @Nullable ProcessState state) {

  /** Copies the collections. */
  public ProcessMember {
    command = List.copyOf(command);
    gpuBytes = Map.copyOf(gpuBytes);
  }

  /**
   * The process id.
   *
   * @return greater than 0
   */
  public int pid() {
    return process.pid();
  }
}
