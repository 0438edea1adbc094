package dev.gpuprocess.survival;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.criu.FileTree;
import dev.gpuprocess.options.HostMemory;
import java.nio.file.Files;
import java.nio.file.Path;

/** Suspends, dumps and restores a process repeatedly in a JVM of its own, until it is killed. */
final class HookedController {

  static final String READY = "ready";

  private HookedController() {}

  /**
   * Never ends.
   *
   * @param args machine, state directory, pid, image, tmpfs for host memory, whether to dump
   */
  public static void main(String[] args) throws Exception {
    Path machine = Path.of(args[0]);
    GpuCheckpoints checkpoints =
        GpuCheckpoints.builder()
            .cuda(machine)
            .stateDirectory(Path.of(args[1]))
            .hostMemory(HostMemory.in(Path.of(args[4])))
            .build();
    long pid = Long.parseLong(args[2]);
    Path image = Path.of(args[3]);
    boolean dumps = Boolean.parseBoolean(args[5]);
    RunningProcess running = checkpoints.process(pid).suspend().resume();
    System.out.println(READY);
    for (int round = 0; ; round++) {
      CheckpointedProcess suspended;
      if (!dumps) {
        suspended = running.suspend();
      } else if (round % 2 == 0) {
        remove(image);
        ProcessImage unused = running.snapshot(image);
        suspended = running.suspend();
      } else {
        remove(image);
        suspended = running.suspend().dump(image).restore();
      }
      running = suspended.resume();
    }
  }

  private static void remove(Path image) {
    if (Files.exists(image)) {
      FileTree.remove(image);
    }
  }
}
