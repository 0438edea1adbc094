package dev.gpuprocess.internal.dump;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.MachineUnfitException;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.error.ProcessUnfitException;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.engine.TrackedProcess;
import dev.gpuprocess.internal.engine.TrackedTree;
import dev.gpuprocess.internal.engine.TreeSearch;
import dev.gpuprocess.internal.inherited.GpuHandles;
import dev.gpuprocess.internal.proc.AmdDevices;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.process.ProcessIdentity;
import dev.gpuprocess.spi.GpuPlugin;
import java.util.List;
import java.util.Optional;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What makes a tree an AMD process: one of its processes has a device file of an AMD GPU open or
 * mapped, and none uses CUDA.
 */
public final class AmdTree {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  private AmdTree() {}

  /**
   * Finds the process of a root.
   *
   * @throws NoSuchProcessException when there is no such process
   * @throws ProcessUnfitException with reason NOT_AMD when it is none
   */
  public static TrackedTree find(EngineContext context, long pid) {
    ProcessIdentity root = TreeSearch.aliveRoot(context, pid, "of");
    require(root, "of", () -> {});
    requireNoMembers(context, root);
    return TrackedTree.of(context, root, GpuPlugin.AMDGPU);
  }

  /**
   * Looks at what the tree has open and mapped.
   *
   * @param verb for exceptions
   * @param each called often; what it throws ends the look
   * @throws ProcessUnfitException with reason NOT_AMD when there is no device of an AMD GPU, or one
   *     of NVIDIA's driver
   */
  static void require(ProcessIdentity root, String verb, Runnable each) {
    boolean found = false;
    for (int pid : ProcFs.tree(root.pid())) {
      Optional<String> other = GpuHandles.of(pid, each).first();
      if (other.isPresent()) {
        throw usesCuda(root, verb, "process %s of it holds %s".formatted(pid, other.get()));
      }
      found |= AmdDevices.heldBy(pid, each).isPresent();
    }
    if (!found) {
      throw new ProcessUnfitException(
          ProcessUnfitException.Reason.NOT_AMD,
          "process %s does not use an AMD GPU, as no process of it has /dev/kfd or /dev/dri/renderD* open: take it with GpuProcess.of(%s)"
              .formatted(root.pid(), root.pid()),
          Failure.of(verb, root.pid()));
    }
  }

  /**
   * The device file by which a tree uses an AMD GPU and no other.
   *
   * @return empty when it uses none, or has one of NVIDIA's driver
   */
  public static Optional<String> deviceOf(int root) {
    List<Integer> all = ProcFs.tree(root);
    if (all.stream().anyMatch(pid -> !GpuHandles.of(pid, () -> {}).isEmpty())) {
      return Optional.empty();
    }
    return all.stream().flatMap(pid -> AmdDevices.heldBy(pid, () -> {}).stream()).findFirst();
  }

  /** One that is checkpointed holds no device; where there is no CUDA driver there is none. */
  private static void requireNoMembers(EngineContext context, ProcessIdentity root) {
    List<TrackedProcess> members;
    try {
      members = new TreeSearch(context, root, "of").members();
    } catch (MachineUnfitException e) {
      if (e.reason() != MachineUnfitException.Reason.NO_CUDA_DRIVER
          && e.reason() != MachineUnfitException.Reason.DRIVER_TOO_OLD) {
        throw e;
      }
      LOG.debug("no process of tree {} uses CUDA: {}", root.pid(), e.getMessage());
      return;
    }
    if (!members.isEmpty()) {
      throw usesCuda(root, "of", "process %s of it has CUDA state".formatted(members.get(0).pid()));
    }
  }

  private static ProcessUnfitException usesCuda(ProcessIdentity root, String verb, String why) {
    return new ProcessUnfitException(
        ProcessUnfitException.Reason.NOT_AMD,
        "process %s uses CUDA, as %s, and CRIU's plugin for AMD GPUs does not carry that: take it with GpuProcess.of(%s) if it uses no AMD GPU; no tool carries both"
            .formatted(root.pid(), why, root.pid()),
        Failure.of(verb, root.pid()));
  }
}
