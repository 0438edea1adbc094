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
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.spi.GpuPlugin;
import java.util.List;
import java.util.Optional;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Recognizes AMD processes: trees in which a process has a device file of an AMD GPU open or
 * mapped, and no process uses CUDA.
 */
public final class AmdTree {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  private AmdTree() {}

  /**
   * Returns the AMD process of a root.
   *
   * @throws NoSuchProcessException when no process has this pid
   * @throws ProcessUnfitException with reason NOT_AMD when it is not an AMD process
   */
  public static TrackedTree find(EngineContext context, long pid) {
    ProcessIdentity root = TreeSearch.aliveRoot(context, pid, "of");
    require(root, "of", () -> {});
    requireNoMembers(context, root);
    return TrackedTree.of(context, root, GpuPlugin.AMDGPU);
  }

  /**
   * Checks the open and mapped files of a tree.
   *
   * @param verb for exceptions
   * @param each called often; an exception of it ends the check
   * @throws ProcessUnfitException with reason NOT_AMD when the tree has no device file of an AMD
   *     GPU, or one of NVIDIA's driver
   */
  static void require(ProcessIdentity root, String verb, Runnable each) {
    boolean found = false;
    for (int pid : ProcFs.tree(root.pid())) {
      Optional<String> other = GpuHandles.of(pid, each).first();
      if (other.isPresent()) {
        throw usesCuda(root, verb, "its process %s holds %s".formatted(pid, other.get()));
      }
      found |= !GpuHandles.ofAmd(pid, each).isEmpty();
    }
    if (!found) {
      throw new ProcessUnfitException(
          ProcessUnfitException.Reason.NOT_AMD,
          "process %s does not use an AMD GPU: no process of its tree has /dev/kfd or /dev/dri/renderD* open; take it with GpuProcess.of(%s)"
              .formatted(root.pid(), root.pid()),
          Failure.of(verb, root.pid()));
    }
  }

  /**
   * Returns a device file of an AMD GPU that a tree has open.
   *
   * @return empty without such a file, or with a device file of NVIDIA's driver
   */
  public static Optional<String> deviceOf(int root) {
    List<Integer> all = ProcFs.tree(root);
    if (all.stream().anyMatch(pid -> !GpuHandles.of(pid, () -> {}).isEmpty())) {
      return Optional.empty();
    }
    return all.stream()
        .flatMap(pid -> GpuHandles.ofAmd(pid, () -> {}).first().stream())
        .findFirst();
  }

  /** Refuses members, including checkpointed ones, which hold no device file. */
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
      throw usesCuda(root, "of", "its process %s has CUDA state".formatted(members.get(0).pid()));
    }
  }

  private static ProcessUnfitException usesCuda(ProcessIdentity root, String verb, String why) {
    return new ProcessUnfitException(
        ProcessUnfitException.Reason.NOT_AMD,
        "process %s uses CUDA (%s), which CRIU's plugin for AMD GPUs does not dump: take it with GpuProcess.of(%s) if it uses no AMD GPU; no tool dumps both"
            .formatted(root.pid(), why, root.pid()),
        Failure.of(verb, root.pid()));
  }
}
