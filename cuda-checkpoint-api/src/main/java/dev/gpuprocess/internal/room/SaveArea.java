package dev.gpuprocess.internal.room;

import dev.gpuprocess.error.ProcessUnreadableException;
import dev.gpuprocess.internal.call.BoundedCall;
import dev.gpuprocess.internal.proc.ProcFields;
import dev.gpuprocess.internal.proc.SaveFileMappings;
import dev.gpuprocess.internal.state.GpuUsage;
import dev.gpuprocess.process.ProcessIdentity;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.OptionalLong;
import java.util.Set;
import java.util.concurrent.TimeoutException;

/**
 * The memory in which the driver keeps the GPU memory of a checkpointed process: private anonymous
 * memory of the process, or files in memory that it maps. With one GPU it is one mapping, wholly
 * resident (measured on an H200 and an H100); the kernel may have merged anonymous memory with its
 * neighbours. So the largest range of anonymous memory is a bound for what the process held, and
 * what is in files comes on top. For several GPUs, where nothing was measured, the bound is all
 * anonymous memory together.
 */
final class SaveArea {

  /**
   * An allowance for GPU memory of a context that is not saved. On an H200 it was measured to be
   * nothing: the context's 527 MiB are in the save area. Other GPUs and drivers were not measured.
   */
  static final long CONTEXT_BYTES = 1L << 30;

  /** Counted page by page by the kernel. */
  private static final Set<String> ROLLUP = Set.of("Anonymous", "Swap", "Private_Hugetlb");

  /** Maintained by the kernel as it goes, and off by some MiB on machines with many processors. */
  private static final Set<String> STATUS = Set.of("RssAnon", "VmSwap", "HugetlbPages");

  private SaveArea() {}

  /**
   * The most that a checkpointed process can have held on one GPU, or on all of them together apart
   * from the contexts.
   *
   * @param oneGpu whether it can have been on one GPU only
   * @param limit how long the kernel may take to count; it waits while the process changes its
   *     mappings
   * @return in bytes; empty when it cannot be read
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
      long own = GpuUsage.sum(bytes.getAsLong(), SaveFileMappings.bytes(pid));
      return OptionalLong.of(GpuUsage.sum(own, CONTEXT_BYTES));
    } catch (ProcessUnreadableException e) {
      return OptionalLong.empty();
    }
  }

  private static OptionalLong sum(int pid, String file, Set<String> fields) {
    try {
      return ProcFields.bytes(
          Files.readString(
              Path.of("/proc", Integer.toString(pid), file), StandardCharsets.ISO_8859_1),
          fields);
    } catch (IOException | NumberFormatException e) {
      // The process is gone or may not be read: the caller must not take that for zero.
      return OptionalLong.empty();
    }
  }
}
