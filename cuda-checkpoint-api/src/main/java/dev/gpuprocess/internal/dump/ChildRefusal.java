package dev.gpuprocess.internal.dump;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.FixAndRetryException;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;

/** That a tree cannot be dumped because a child of it holds a GPU, and what to do. */
public final class ChildRefusal {

  /** For workers that are forked when CUDA is in use, as PyTorch's data loaders usually are. */
  public static final String CURES =
      "for workers made by fork launch the process with GpuProcess.launch and LaunchOptions.dropInheritedGpu(true), or dump it with DumpOptions.releaseInheritedGpu(true), or start them with spawn or forkserver";

  private ChildRefusal() {}

  /**
   * Makes the exception.
   *
   * @param root the process that is dumped
   * @param what about the child
   * @param cure what to do
   */
  static FixAndRetryException of(int child, int root, String what, String cure) {
    return new FixAndRetryException(
        FixAndRetryException.Reason.CUDA_CHILD,
        "child %s (%s) of process %s %s, so the tree cannot be dumped: %s"
            .formatted(child, name(child), root, what, cure),
        Failure.of("dump", root));
  }

  /**
   * For a child that has a device file of which it is not known how it came by it.
   *
   * @param outcome what became of the root; empty where its state says it
   */
  static FixAndRetryException holds(int child, int root, String device, String outcome) {
    return of(
        child,
        root,
        "holds %s, inherited by fork or opened for CUDA or NVML of its own".formatted(device),
        CURES
            + "; take CUDA processes of a tree together with GpuProcess.of(%s), and end a child that only uses NVML"
                .formatted(root)
            + outcome);
  }

  /** For a child from which that was to be taken, and cannot be. */
  static FixAndRetryException keeps(int child, int root, String device, String why) {
    return of(
        child,
        root,
        "holds %s, which cannot be taken from it (%s)".formatted(device, why),
        "end the child, or launch the process with GpuProcess.launch and LaunchOptions.dropInheritedGpu(true)");
  }

  static String name(int child) {
    return ProcFs.stat(child).map(ProcStat::name).orElse("ended");
  }
}
