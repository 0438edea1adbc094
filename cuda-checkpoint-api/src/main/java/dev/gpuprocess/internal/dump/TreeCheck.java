package dev.gpuprocess.internal.dump;

import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.FixAndRetryException;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.error.ProcessUnfitException;
import dev.gpuprocess.internal.engine.ProcessOperation;
import dev.gpuprocess.internal.engine.StepRecorder;
import dev.gpuprocess.internal.engine.TreeOperation;
import dev.gpuprocess.internal.inherited.GpuHandles;
import dev.gpuprocess.internal.inherited.GpuRelease;
import dev.gpuprocess.internal.inherited.Inheritance;
import dev.gpuprocess.internal.inherited.NotReleasableException;
import dev.gpuprocess.internal.inherited.Released;
import dev.gpuprocess.internal.proc.Freezer;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.internal.proc.Standstill;
import dev.gpuprocess.internal.text.Printable;
import dev.gpuprocess.internal.time.Durations;
import dev.gpuprocess.internal.time.Polling;
import dev.gpuprocess.internal.time.WorkLimit;
import dev.gpuprocess.report.ProcessIdentity;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/**
 * Checks children that hold a GPU and are not members, and releases their inherited device files.
 * Forked workers inherit the driver's descriptors and mappings; the driver does not know about
 * them, so it cannot close them, and CRIU cannot dump them.
 *
 * <p>A snapshot releases while its process is on the GPU. That is safe, because the driver treats
 * it as the exit of such a child; a refusal comes before the process has lost its GPU, and the
 * pause is shorter. A dump releases when all other checks have passed. If the dump fails later, the
 * children continue without device files that they cannot use.
 */
public final class TreeCheck {

  /**
   * What to do about workers that were forked when CUDA was in use, as by PyTorch's data loaders.
   */
  public static final String CURES =
      "for workers made by fork launch the process with GpuProcess.launch and LaunchOptions.dropInheritedGpu(true), or dump it with DumpOptions.releaseInheritedGpu(true), or start them with spawn or forkserver";

  /** The longest time between a child's {@code vfork} and its exec. */
  private static final Duration EXECUTION = Duration.ofSeconds(1);

  private final TreeOperation operation;
  private final WorkLimit limit;
  private final boolean releases;
  private final Map<ProcessIdentity, Inheritance> inheritances = new HashMap<>();

  /**
   * Prepares a check.
   *
   * @param releases whether children pass that hold only inherited device files
   */
  TreeCheck(TreeOperation operation, WorkLimit limit, boolean releases) {
    this.operation = operation;
    this.limit = limit;
    this.releases = releases;
  }

  /**
   * Refuses a tree in which a child that is not a member has CUDA state that is not checkpointed,
   * or holds device files that cannot be released, or is frozen. Changes nothing.
   *
   * @return the children whose device files are to be released
   */
  List<ProcessIdentity> require() {
    Freezer freezer = Freezer.look();
    List<ProcessIdentity> holders = new ArrayList<>();
    for (int child : ProcFs.descendants(root())) {
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

  private int root() {
    return operation.root().pid();
  }

  /** Refuses a frozen child: CRIU would wait for it and leave the tree half stopped. */
  private void requireThawed(Freezer freezer, int child) {
    if (freezer.of(child) == Freezer.State.FROZEN) {
      throw new FixAndRetryException(
          FixAndRetryException.Reason.PROCESS_STOPPED,
          "child %s (%s) of process %s is in a frozen cgroup, so the tree cannot be dumped: thaw it and try again"
              .formatted(child, name(child), root()),
          Failure.of("dump", root()));
    }
  }

  private void requireNoGpu(int child, Optional<String> device) {
    boolean isStill = Standstill.of(child).isPresent();
    if (device.isPresent() && isStill) {
      throw refused(
          child,
          root(),
          "is stopped and holds " + device.get(),
          "let it continue and try again, so that the driver can report its state");
    }
    // A stopped child without a device file can only be checkpointed, and the driver might hang.
    Optional<ProcessState> state = isStill ? Optional.empty() : operation.stateOf(child);
    if (state.isPresent()) {
      throw refused(
          child,
          root(),
          "has CUDA state of its own, " + state.get(),
          "take the tree again with GpuProcess.of(%s): this child began to use CUDA since"
              .formatted(root()));
    }
    if (device.isPresent()) {
      throw holds(child, root(), device.get(), "");
    }
  }

  /** Returns a child whose device files can be released; empty when it has ended or lost them. */
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
   * Checks that CRIU, which dumps the tree of the root, finds all members in it.
   *
   * @throws NoSuchProcessException when the root has ended
   * @throws ProcessUnfitException with reason MEMBER_OUTSIDE_TREE when the parent of a member has
   *     ended, so that the member left the tree
   */
  static void requireInTree(TreeOperation operation) {
    ProcessIdentity root = operation.root();
    if (!root.isAlive()) {
      throw new NoSuchProcessException(
          "process %s has ended, and CRIU dumps the tree of a root: resume the members that are left"
              .formatted(root.pid()),
          operation.failure(null, null));
    }
    Set<Integer> tree = new HashSet<>(ProcFs.descendants(root.pid()));
    tree.add(root.pid());
    List<Integer> outside =
        operation.members().stream()
            .map(ProcessOperation::pid)
            .filter(pid -> !tree.contains(pid))
            .toList();
    if (!outside.isEmpty()) {
      throw new ProcessUnfitException(
          ProcessUnfitException.Reason.MEMBER_OUTSIDE_TREE,
          "the members %s of process %s have left its tree, as their parents ended, and CRIU dumps only the tree: end them, or end the process without an image"
              .formatted(outside, root.pid()),
          operation.failure(null, null));
    }
  }

  /**
   * Returns what a child can have inherited: from its nearest ancestor that uses CUDA. The result
   * keeps what it has read of the children.
   *
   * @throws NotReleasableException when no ancestor uses CUDA
   */
  private Inheritance inheritanceOf(ProcessIdentity child) throws NotReleasableException {
    List<ProcessIdentity> users =
        operation.members().stream().map(each -> each.process().identity).toList();
    return inheritances.computeIfAbsent(Inheritance.origin(child, users), Inheritance::new);
  }

  private void awaitApart(ProcessIdentity child, Inheritance inheritance)
      throws NotReleasableException {
    try (Polling polling = new Polling(EXECUTION)) {
      while (!inheritance.isApart(child) && polling.pause()) {
        limit.check();
      }
    }
  }

  /**
   * Releases the device files of children, and repeats the check until no child holds any.
   *
   * @param holders the children that {@link #require} returned
   * @throws FixAndRetryException with reason CUDA_CHILD when a device file cannot be released, or a
   *     new child cannot be dumped
   * @throws OperationTimedOutException at the deadline
   */
  void release(List<ProcessIdentity> holders, StepRecorder steps) {
    if (!holders.isEmpty()) {
      Released unused =
          steps.run("release", () -> released(holders), none -> 0L, Released::toString);
    }
  }

  private Released released(List<ProcessIdentity> holders) {
    Set<ProcessIdentity> done = new HashSet<>();
    Released all = Released.NOTHING;
    for (List<ProcessIdentity> left = holders; !left.isEmpty(); left = require()) {
      for (ProcessIdentity child : left) {
        if (limit.isUp()) {
          throw timedOut();
        }
        if (!done.add(child)) {
          throw keeps(child, "it opens them again");
        }
        all = all.and(released(child));
      }
    }
    return all;
  }

  private Released released(ProcessIdentity child) {
    // The threads of a child that do not stop in the time of a call are blocked in the kernel.
    Duration call = operation.tree().context.timeouts().call();
    Duration time = Durations.min(call, limit.remaining());
    try {
      return GpuRelease.of(child, inheritanceOf(child), time);
    } catch (NotReleasableException e) {
      if (child.isAlive()) {
        throw keeps(child, String.valueOf(e.getMessage()));
      }
      return Released.NOTHING;
    }
  }

  private OperationTimedOutException timedOut() {
    return new OperationTimedOutException(
        "dump of process %s: releasing the GPU files that its children inherited took all of the %s of the dump; the children continue, as they cannot use them: allow more time (DumpOptions.deadline)"
            .formatted(root(), Printable.of(limit.total())),
        Failure.of("dump", root()));
  }

  private FixAndRetryException keeps(ProcessIdentity child, String why) {
    return keeps(
        child, GpuHandles.of(child.pid(), () -> {}).first().orElse("device files of the GPU"), why);
  }

  private FixAndRetryException keeps(ProcessIdentity child, String device, String why) {
    return refused(
        child.pid(),
        root(),
        "holds %s, which cannot be taken from it (%s)".formatted(device, why),
        "end the child, or launch the process with GpuProcess.launch and LaunchOptions.dropInheritedGpu(true)");
  }

  /**
   * Returns the exception for a child that holds a device file of unknown origin.
   *
   * @param outcome the state of the root; empty where the exception's data has it
   */
  static FixAndRetryException holds(int child, int root, String device, String outcome) {
    return refused(
        child,
        root,
        "holds %s, inherited by fork or opened for CUDA or NVML of its own".formatted(device),
        CURES
            + "; take CUDA processes of a tree together with GpuProcess.of(%s), and end a child that only uses NVML"
                .formatted(root)
            + outcome);
  }

  private static FixAndRetryException refused(int child, int root, String what, String cure) {
    return new FixAndRetryException(
        FixAndRetryException.Reason.CUDA_CHILD,
        "child %s (%s) of process %s %s, so the tree cannot be dumped: %s"
            .formatted(child, name(child), root, what, cure),
        Failure.of("dump", root));
  }

  private static String name(int child) {
    return ProcFs.stat(child).map(ProcStat::name).orElse("ended");
  }
}
