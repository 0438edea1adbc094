package dev.gpuprocess.internal.process;

import dev.gpuprocess.gpu.GpuReading;
import dev.gpuprocess.process.ProcessIdentity;

/**
 * Whether the pids that NVML reports are those of our pid namespace. Drivers that translate them
 * leave out the processes that we cannot see; others report the pids of the machine, and one of
 * these may be the number of another process here.
 */
final class PidNamespace {

  /** {@code PROC_PID_INIT_INO}: the kernel gives the first pid namespace this inode. */
  private static final long FIRST = 0xefff_fffcL;

  private PidNamespace() {}

  /** False when a process is listed that is not here, and that we would see if it were. */
  static boolean isOurs(GpuReading reading) {
    return isFirst()
        || reading.gpus().stream()
            .flatMap(gpu -> gpu.users().stream())
            .allMatch(user -> ProcessIdentity.of(user.pid()).isPresent());
  }

  private static boolean isFirst() {
    return ProcessKey.self().namespace() == FIRST;
  }
}
