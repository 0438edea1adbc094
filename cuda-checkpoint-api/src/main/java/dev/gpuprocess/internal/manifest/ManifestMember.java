package dev.gpuprocess.internal.manifest;

import dev.gpuprocess.cuda.GpuUuid;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.report.ProcessMember;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * A CUDA process in an image. Immutable.
 *
 * @param pid the pid that it had, and will have again; of an {@linkplain
 *     ManifestData.Options#isIsolated isolated} process that in its own pid namespace
 * @param startTicks when it started, in clock ticks since boot
 * @param gpuBytes how many bytes it held on each GPU, by UUID; empty where that was not known
 */
public record ManifestMember(int pid, long startTicks, Map<String, Long> gpuBytes) {

  /**
   * Checks every part.
   *
   * @throws IllegalArgumentException when a part is impossible
   */
  public ManifestMember {
    if (pid < 1 || startTicks < 0) {
      throw new IllegalArgumentException(
          "an image cannot have the member %s, started at %s".formatted(pid, startTicks));
    }
    gpuBytes = holdings(gpuBytes);
  }

  /** Returns what callers see of it. */
  ProcessMember summary() {
    Map<GpuUuid, Long> held = new TreeMap<>();
    gpuBytes.forEach((gpu, bytes) -> held.put(GpuUuid.of(gpu), bytes));
    return new ProcessMember(
        new ProcessIdentity(pid, startTicks), List.of(), held, ProcessState.CHECKPOINTED);
  }

  /** A copy in order, so that one manifest is always one text. */
  static Map<String, Long> holdings(Map<String, Long> gpuBytes) {
    gpuBytes.forEach(
        (gpu, bytes) -> {
          if (!GpuUuid.of(gpu).text().equals(gpu) || bytes < 0) {
            throw new IllegalArgumentException(gpu + " cannot have held " + bytes + " bytes");
          }
        });
    return Collections.unmodifiableMap(new TreeMap<>(gpuBytes));
  }
}
