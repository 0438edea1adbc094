package dev.gpuprocess.internal.dump;

import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.FixAndRetryException;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.error.ProcessStoppedException;
import dev.gpuprocess.error.ProcessUnfitException;
import dev.gpuprocess.internal.engine.ProcessOperation;
import dev.gpuprocess.internal.engine.TrackedTree;
import dev.gpuprocess.internal.engine.TreeOperation;
import dev.gpuprocess.internal.inherited.GpuHandles;
import dev.gpuprocess.internal.inherited.Inheritance;
import dev.gpuprocess.internal.inherited.NotReleasableException;
import dev.gpuprocess.internal.proc.Freezer;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.Standstill;
import dev.gpuprocess.internal.time.Polling;
import dev.gpuprocess.internal.time.WorkLimit;
import dev.gpuprocess.process.ProcessIdentity;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/**
 * Refuses to dump a tree in which a process that is not moved with it still holds a GPU. Forked
 * workers inherit the driver's descriptors and mappings; the driver knows nothing of them, so it
 * cannot release them, and CRIU cannot dump them.
 */
final class TreeCheck {

  /** How long a child may take from {@code vfork} to the execution of a program. */
  private static final Duration EXECUTION = Duration.ofSeconds(1);

  private final TreeOperation operation;
  private final WorkLimit limit;
  private final boolean releases;
  private final Map<ProcessIdentity, Inheritance> inheritances = new HashMap<>();

  /**
   * Prepares a check.
   *
   * @param releases whether children that hold only what they inherited pass, since that will be
   *     taken from them
   */
  TreeCheck(TreeOperation operation, WorkLimit limit, boolean releases) {
    this.operation = operation;
    this.limit = limit;
    this.releases = releases;
  }

  /**
   * Throws when a child that is no member has CUDA state that is not checkpointed, or has device
   * files open or mapped that are not to be taken from it, or when any is frozen. Touches nothing.
   *
   * @return the children from which device files are to be taken
   */
  List<ProcessIdentity> require() {
    Freezer freezer = Freezer.look();
    List<ProcessIdentity> holders = new ArrayList<>();
    for (int child : ProcFs.descendants(operation.root().pid())) {
      requireThawed(freezer, child);
      if (operation.isMember(child)) {
        continue;
      }
      GpuHandles held = GpuHandles.of(child, limit::check);
      if (held.isEmpty() || !releases) {
        requireNoGpu(child, held.first());
      } else {
        String device = held.first().orElseThrow();
        ProcessIdentity.of(child)
            .flatMap(identity -> releasable(identity, device))
            .ifPresent(holders::add);
      }
    }
    return holders;
  }

  /** CRIU would wait for a frozen child, and leave the tree half stopped. */
  private void requireThawed(Freezer freezer, int child) {
    if (freezer.of(child) == Freezer.State.FROZEN) {
      throw new ProcessStoppedException(
          "child %s (%s) of process %s is in a frozen cgroup, so the tree cannot be dumped: thaw it and try again"
              .formatted(child, ChildRefusal.name(child), operation.root().pid()),
          Failure.of("dump", operation.root().pid()));
    }
  }

  private void requireNoGpu(int child, Optional<String> device) {
    int root = operation.root().pid();
    boolean isStill = Standstill.of(child).isPresent();
    if (device.isPresent() && isStill) {
      throw ChildRefusal.of(
          child,
          root,
          "is stopped and holds " + device.get(),
          "let it continue and try again, so that the driver can be asked whose that is");
    }
    // Without a device file open it can only be checkpointed, and asking could hang.
    Optional<ProcessState> state = isStill ? Optional.empty() : operation.stateOf(child);
    if (state.isPresent()) {
      throw ChildRefusal.of(
          child,
          root,
          "has CUDA state of its own, " + state.get(),
          "take the tree again with GpuProcess.of(%s): this child began to use CUDA since"
              .formatted(root));
    }
    if (device.isPresent()) {
      throw ChildRefusal.holds(child, root, device.get(), "");
    }
  }

  /** The child, from which it is to be taken; empty when it has ended, or lost it, meanwhile. */
  private Optional<ProcessIdentity> releasable(ProcessIdentity child, String device) {
    try {
      Optional<Standstill> still = Standstill.of(child.pid()); // the driver would not answer
      if (still.isPresent()) {
        throw keeps(child, device, "it %s: %s".formatted(still.get().what(), still.get().cure()));
      }
      Inheritance inheritance = inheritanceOf(child);
      awaitApart(child, inheritance);
      GpuHandles held = GpuHandles.of(child.pid(), limit::check);
      if (held.isEmpty()) {
        return Optional.empty();
      }
      if (!operation.hasNoCuda(child)) {
        throw keeps(child, device, "it may have CUDA state of its own: suspend it");
      }
      inheritance.require(child, held);
    } catch (NotReleasableException e) {
      if (child.isAlive()) {
        throw keeps(child, device, String.valueOf(e.getMessage()));
      }
    }
    return Optional.of(child).filter(ProcessIdentity::isAlive);
  }

  /**
   * Makes sure that CRIU, which dumps the tree of the root, finds all members there.
   *
   * @throws NoSuchProcessException when the root has ended
   * @throws ProcessUnfitException with reason MEMBER_OUTSIDE_TREE when the parent of a member has
   *     ended, so that it left the tree
   */
  static void requireInTree(TreeOperation operation) {
    TrackedTree job = operation.tree();
    if (!job.root.isAlive()) {
      throw new NoSuchProcessException(
          "process %s has ended, and CRIU dumps the tree of a root: resume the members that are left"
              .formatted(job.root.pid()),
          operation.failure(null, null));
    }
    Set<Integer> tree = new HashSet<>(ProcFs.descendants(job.root.pid()));
    tree.add(job.root.pid());
    List<Integer> outside =
        operation.members().stream()
            .map(ProcessOperation::pid)
            .filter(pid -> !tree.contains(pid))
            .toList();
    if (!outside.isEmpty()) {
      throw new ProcessUnfitException(
          ProcessUnfitException.Reason.MEMBER_OUTSIDE_TREE,
          "the members %s of process %s have left its tree, as their parents ended, and CRIU dumps only the tree: end them, or end the process without an image"
              .formatted(outside, job.root.pid()),
          operation.failure(null, null));
    }
  }

  /**
   * What a child can have inherited, which is from the nearest of its parents that uses CUDA. It
   * knows what it has seen of the children that it has looked at.
   *
   * @throws NotReleasableException when none of its parents uses CUDA
   */
  Inheritance inheritanceOf(ProcessIdentity child) throws NotReleasableException {
    List<ProcessIdentity> users =
        operation.members().stream().map(each -> each.process().identity).toList();
    return inheritances.computeIfAbsent(Inheritance.origin(child, users), Inheritance::new);
  }

  private FixAndRetryException keeps(ProcessIdentity child, String device, String why) {
    return ChildRefusal.keeps(child.pid(), operation.root().pid(), device, why);
  }

  private void awaitApart(ProcessIdentity child, Inheritance inheritance)
      throws NotReleasableException {
    try (Polling polling = new Polling(EXECUTION)) {
      while (!inheritance.isApart(child) && polling.pause()) {
        limit.check();
      }
    }
  }
}
