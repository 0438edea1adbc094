package dev.gpuprocess;

import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.CudaChildException;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.proc.Mapping;
import dev.gpuprocess.proc.ProcFs;
import dev.gpuprocess.proc.ProcStat;
import java.util.Optional;
import java.util.stream.Stream;

/**
 * Refuses to dump a tree in which a child still holds a GPU. Forked workers inherit the driver's
 * descriptors and mappings; the driver knows nothing of them, so nothing can release them, and CRIU
 * cannot dump them.
 */
final class TreeCheck {

  /** Also how the simulated driver names its devices, below its own directory. */
  private static final String DEVICE = "/dev/nvidia";

  private TreeCheck() {}

  /**
   * Throws when a child has CUDA state that is not checkpointed, or device files open or mapped.
   */
  static void requireNoGpu(Verb verb, int child) {
    Optional<String> device = deviceOf(child);
    if (device.isPresent()) {
      throw refusal(
          verb,
          child,
          "holds " + device.get() + " inherited by fork",
          "start such workers with spawn or forkserver");
    }
    ProcessState state = verb.stateOf(child).orElse(ProcessState.CHECKPOINTED);
    if (state != ProcessState.CHECKPOINTED) {
      throw refusal(verb, child, "has CUDA state of its own, " + state, "suspend it first");
    }
  }

  /** Tells whether a file is the driver's. */
  static boolean isDevice(String name) {
    return name.contains(DEVICE);
  }

  /** A device file of the driver that a process has open or mapped. */
  static Optional<String> deviceOf(int pid) {
    Stream<String> open = ProcFs.openFiles(pid).stream().map(file -> file.target());
    Stream<String> mapped = ProcFs.memory(pid).stream().map(Mapping::name);
    return Stream.concat(open, mapped).filter(TreeCheck::isDevice).findFirst();
  }

  private static CudaChildException refusal(Verb verb, int child, String what, String cure) {
    return new CudaChildException(
        "child %d (%s) of process %d %s, so the tree cannot be dumped: %s"
            .formatted(
                child,
                ProcFs.stat(child).map(ProcStat::name).orElse("ended"),
                verb.pid(),
                what,
                cure),
        Failure.of("dump", verb.pid()));
  }
}
