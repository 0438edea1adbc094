package dev.gpuprocess.internal.dump;

import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.CudaChildException;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.MemberOutsideTreeException;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.error.ProcessStoppedException;
import dev.gpuprocess.internal.engine.DriverOperation;
import dev.gpuprocess.internal.engine.JobOperation;
import dev.gpuprocess.internal.engine.TrackedJob;
import dev.gpuprocess.internal.proc.Freezer;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.internal.proc.ScanLimit;
import dev.gpuprocess.internal.proc.Standstill;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import java.util.stream.Collectors;

/**
 * Refuses to dump a tree in which a process that is not moved with it still holds a GPU. Forked
 * workers inherit the driver's descriptors and mappings; the driver knows nothing of them, so
 * nothing can release them, and CRIU cannot dump them.
 */
public final class TreeCheck {

  /** Also how the simulated driver names its devices, below its own directory. */
  private static final String DEVICE = "/dev/nvidia";

  private final JobOperation operation;
  private final ScanLimit limit;

  TreeCheck(JobOperation operation, ScanLimit limit) {
    this.operation = operation;
    this.limit = limit;
  }

  /**
   * Throws when a child that is no member has CUDA state that is not checkpointed, or has device
   * files open or mapped, or when any is frozen.
   */
  void require(List<Integer> children) {
    Freezer freezer = Freezer.look();
    Set<Integer> members =
        operation.each().stream().map(DriverOperation::pid).collect(Collectors.toSet());
    for (int child : children) {
      requireThawed(freezer, child);
      if (!members.contains(child)) {
        requireNoGpu(child);
      }
    }
  }

  /** CRIU would wait for a frozen child, and leave the tree half stopped. */
  private void requireThawed(Freezer freezer, int child) {
    if (freezer.of(child) == Freezer.State.FROZEN) {
      throw new ProcessStoppedException(
          "child %s (%s) of process %s is in a frozen cgroup, so the tree cannot be dumped: thaw it and try again"
              .formatted(child, name(child), operation.root().pid()),
          Failure.of("dump", operation.root().pid()));
    }
  }

  private void requireNoGpu(int child) {
    Optional<String> device = deviceOf(child, limit::check);
    boolean isStill = Standstill.of(child).isPresent();
    if (device.isPresent() && isStill) {
      throw refusal(
          child,
          "is stopped and holds " + device.get(),
          "let it continue and try again, so that the driver can be asked whose that is");
    }
    // Without a device file open it can only be checkpointed, and asking could hang.
    Optional<ProcessState> state = isStill ? Optional.empty() : operation.stateOf(child);
    // A restored job would not know of it; a process never knew of its children.
    if (state.isPresent()
        && (state.get() != ProcessState.CHECKPOINTED || operation.job().isTree())) {
      throw refusal(
          child,
          "has CUDA state of its own, " + state.get(),
          "take all CUDA processes of the tree together with GpuJob.of(%s), or suspend it first"
              .formatted(operation.root().pid()));
    }
    if (device.isPresent()) {
      throw refusal(
          child,
          "holds " + device.get() + ", inherited by fork or opened for NVML alone",
          "start workers with spawn or forkserver, and end such helpers");
    }
  }

  /**
   * Makes sure that CRIU, which dumps the tree of the root, finds all members there.
   *
   * @throws NoSuchProcessException when the root has ended
   * @throws MemberOutsideTreeException when the parent of a member has ended, so that it left the
   *     tree
   */
  static void requireInTree(JobOperation operation) {
    TrackedJob job = operation.job();
    if (!job.isTree()) {
      return;
    }
    if (!job.root.isAlive()) {
      throw new NoSuchProcessException(
          "the root of job %s has ended, and CRIU dumps the tree of a root: resume what is left of the job"
              .formatted(job.root.pid()),
          operation.failure(null, null));
    }
    Set<Integer> tree = new HashSet<>(ProcFs.descendants(job.root.pid()));
    tree.add(job.root.pid());
    List<Integer> outside =
        operation.each().stream()
            .map(DriverOperation::pid)
            .filter(pid -> !tree.contains(pid))
            .toList();
    if (!outside.isEmpty()) {
      throw new MemberOutsideTreeException(
          "the members %s of job %s have left its tree, as their parents ended, and CRIU dumps only the tree: end them, or end the job without an image"
              .formatted(outside, job.root.pid()),
          operation.failure(null, null));
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
            .formatted(child, name(child), operation.root().pid(), what, cure),
        Failure.of("dump", operation.root().pid()));
  }
}
