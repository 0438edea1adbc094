package dev.gpuprocess;

import dev.gpuprocess.cuda.GpuReading;
import dev.gpuprocess.internal.cuda.LibNvml;
import dev.gpuprocess.internal.state.GpuUsage;
import java.nio.file.Path;
import java.util.Optional;

/** Says what NVML seems to tell of this JVM, and whether it tells of anybody. */
final class GpuUsageInNamespace {

  private GpuUsageInNamespace() {}

  /** With the directory of the machine. */
  public static void main(String[] args) {
    Optional<GpuReading> reading = LibNvml.in(Path.of(args[0])).read();
    // The pid of the process outside is free here, or another process has it.
    int pid = reading.orElseThrow().gpus().get(0).users().get(0).pid();
    System.out.println(GpuUsage.of(pid, reading));
    System.out.println(reading.get().gpus().get(0).users().get(0).bytes().isPresent());
  }
}
