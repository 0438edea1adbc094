package dev.gpuprocess.internal.reservation;

import dev.gpuprocess.internal.call.BoundedCall;
import dev.gpuprocess.internal.proc.ProcFields;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcessUnreadableException;
import dev.gpuprocess.internal.proc.SaveFileMappings;
import dev.gpuprocess.internal.state.GpuUsage;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.time.Duration;
import java.util.OptionalLong;
import java.util.Set;
import java.util.concurrent.TimeoutException;

/**
 * An upper bound for the GPU memory of a checkpointed process, from the size of its save areas.
 * These are private anonymous memory of the process, or save files that it maps. With one GPU there
 * is one mapping, wholly resident (measured on an H200 and an H100); the kernel may have merged
 * anonymous memory with its neighbors. So the bound is the largest range of anonymous memory and
 * all save files. For several GPUs, which were not measured, the bound is all anonymous memory and
 * all save files. Zeros are not in the files and not resident: the unnamed memory beside the files
 * counts as zeros.
 */
final class SaveAreaBound {

  /**
   * An allowance for GPU memory of a context that is not in the save area. On an H200 there is
   * none: the context's 527 MiB are in the save area. Other GPUs and drivers were not measured.
   */
  static final long CONTEXT_BYTES = 1L << 30;

  /** Counted page by page by the kernel. */
  private static final Set<String> ROLLUP = Set.of("Anonymous", "Swap", "Private_Hugetlb");

  /** Counters of the kernel, wrong by some MiB on machines with many processors. */
  private static final Set<String> STATUS = Set.of("RssAnon", "VmSwap", "HugetlbPages");

  private SaveAreaBound() {}

  /**
   * Returns the most bytes that a checkpointed process can have used on one GPU, or on all GPUs
   * together without the contexts.
   *
   * @param oneGpu whether the process can have used one GPU only
   * @param limit the time of the kernel, which waits while the process changes its mappings
   * @return empty if the process cannot be read
   */
  static OptionalLong bound(ProcessIdentity process, boolean oneGpu, Duration limit) {
    try {
      BoundedCall.requireCapacity(process, "count memory");
      return BoundedCall.run(
          process,
          "count memory " + process.pid(),
          limit,
          () -> bound(process.pid(), oneGpu),
          (late, failed) -> {});
    } catch (TimeoutException e) {
      return OptionalLong.empty();
    }
  }

  private static OptionalLong bound(int pid, boolean oneGpu) {
    OptionalLong bytes = oneGpu ? LargestAnonymousRange.of(pid) : OptionalLong.empty();
    if (bytes.isEmpty()) {
      bytes = sum(pid, "smaps_rollup", ROLLUP);
    }
    if (bytes.isEmpty()) {
      bytes = sum(pid, "status", STATUS);
    }
    if (bytes.isEmpty()) {
      return bytes;
    }
    try {
      long own = GpuUsage.sum(bytes.getAsLong(), SaveFileMappings.bytesOfAreas(pid));
      return OptionalLong.of(GpuUsage.sum(own, CONTEXT_BYTES));
    } catch (ProcessUnreadableException e) {
      return OptionalLong.empty();
    }
  }

  private static OptionalLong sum(int pid, String file, Set<String> fields) {
    try {
      return ProcFields.bytes(
          Files.readString(ProcFs.file(pid, file), StandardCharsets.ISO_8859_1), fields);
    } catch (IOException | NumberFormatException e) {
      // The process has ended or may not be read, which is not zero.
      return OptionalLong.empty();
    }
  }
}
