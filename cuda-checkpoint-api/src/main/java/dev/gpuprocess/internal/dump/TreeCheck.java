package dev.gpuprocess.internal.dump;

import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.CudaChildException;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.ProcessStoppedException;
import dev.gpuprocess.internal.engine.DriverOperation;
import dev.gpuprocess.internal.proc.Freezer;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.internal.proc.ScanLimit;
import dev.gpuprocess.internal.proc.Standstill;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;

/**
 * Refuses to dump a tree in which a child still holds a GPU. Forked workers inherit the driver's
 * descriptors and mappings; the driver knows nothing of them, so nothing can release them, and CRIU
 * cannot dump them.
 */
public final class TreeCheck {

  /** Also how the simulated driver names its devices, below its own directory. */
  private static final String DEVICE = "/dev/nvidia";

  private final DriverOperation operation;
  private final ScanLimit limit;

  TreeCheck(DriverOperation operation, ScanLimit limit) {
    this.operation = operation;
    this.limit = limit;
  }

  /**
   * Throws when a child has CUDA state that is not checkpointed, has device files open or mapped,
   * or is frozen.
   */
  void require(List<Integer> children) {
    Freezer freezer = Freezer.look();
    for (int child : children) {
      requireThawed(freezer, child);
      requireNoGpu(child);
    }
  }

  /** CRIU would wait for a frozen child, and leave the tree half stopped. */
  private void requireThawed(Freezer freezer, int child) {
    if (freezer.of(child) == Freezer.State.FROZEN) {
      throw new ProcessStoppedException(
          "child %s (%s) of process %s is in a frozen cgroup, so the tree cannot be dumped: thaw it and try again"
              .formatted(child, name(child), operation.pid()),
          Failure.of("dump", operation.pid()));
    }
  }

  private void requireNoGpu(int child) {
    Optional<String> device = deviceOf(child, limit::check);
    if (device.isPresent()) {
      throw refusal(
          child,
          "holds " + device.get() + ", inherited by fork or opened for NVML alone",
          "launch the job with LaunchOptions.dropInheritedGpu(true), or start workers with spawn or forkserver, and end such helpers");
    }
    // Without a device file open it can only be checkpointed, and asking could hang.
    if (Standstill.of(child).isPresent()) {
      return;
    }
    ProcessState state = operation.stateOf(child).orElse(ProcessState.CHECKPOINTED);
    if (state != ProcessState.CHECKPOINTED) {
      throw refusal(child, "has CUDA state of its own, " + state, "suspend it first");
    }
  }

  /** Whether a path is a device file of the driver. */
  public static boolean isDevice(String name) {
    return name.contains(DEVICE);
  }

  /** A device file of the driver that a process has open or mapped. */
  public static Optional<String> deviceOf(int pid) {
    return deviceOf(pid, () -> {});
  }

  private static Optional<String> deviceOf(int pid, Runnable check) {
    AtomicReference<String> first = new AtomicReference<>();
    Consumer<String> each =
        name -> {
          check.run();
          if (first.get() == null && isDevice(name)) {
            first.set(name);
          }
        };
    ProcFs.openFiles(pid, file -> each.accept(file.target()));
    ProcFs.memory(pid, mapping -> each.accept(mapping.name()));
    return Optional.ofNullable(first.get());
  }

  private static String name(int child) {
    return ProcFs.stat(child).map(ProcStat::name).orElse("ended");
  }

  private CudaChildException refusal(int child, String what, String cure) {
    return new CudaChildException(
        "child %s (%s) of process %s %s, so the tree cannot be dumped: %s"
            .formatted(child, name(child), operation.pid(), what, cure),
        Failure.of("dump", operation.pid()));
  }
}
