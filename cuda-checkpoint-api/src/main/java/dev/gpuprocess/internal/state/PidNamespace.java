package dev.gpuprocess.internal.state;

import dev.gpuprocess.cuda.GpuReading;
import dev.gpuprocess.internal.linux.ProcessKey;
import dev.gpuprocess.report.ProcessIdentity;

/**
 * Whether the pids that NVML reports are those of our pid namespace. Some drivers translate pids
 * and leave out processes that we cannot see; others report the pids of the initial namespace,
 * which may belong to other processes here.
 */
public final class PidNamespace {

  private PidNamespace() {}

  /** False when NVML lists a pid that does not exist here. */
  public static boolean isOurs(GpuReading reading) {
    return ProcessKey.isInFirstNamespace()
        || reading.gpus().stream()
            .flatMap(gpu -> gpu.users().stream())
            .allMatch(user -> ProcessIdentity.of(user.pid()).isPresent());
  }
}
