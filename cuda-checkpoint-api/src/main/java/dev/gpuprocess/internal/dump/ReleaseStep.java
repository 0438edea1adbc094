package dev.gpuprocess.internal.dump;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.internal.engine.StepRecorder;
import dev.gpuprocess.internal.engine.TreeOperation;
import dev.gpuprocess.internal.inherited.GpuHandles;
import dev.gpuprocess.internal.inherited.GpuRelease;
import dev.gpuprocess.internal.inherited.NotReleasableException;
import dev.gpuprocess.internal.inherited.Released;
import dev.gpuprocess.internal.text.Printable;
import dev.gpuprocess.internal.time.WorkLimit;
import dev.gpuprocess.process.ProcessIdentity;
import java.time.Duration;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

/**
 * The step of a dump in which forked children lose what they inherited of the GPU.
 *
 * <p>A snapshot does it while its process is still on the GPU: that is as safe, since to the driver
 * it is what the end of such a child is, which happens all the time, and a refusal then comes
 * before the process has lost its GPU, and the pause is shorter. A dump does it when all that can
 * be refused was looked at; children that were forked since a snapshot's first look lose it then.
 * What fails later leaves such children without what they cannot use anyway.
 */
final class ReleaseStep {

  private final TreeOperation operation;
  private final StepRecorder steps;
  private final WorkLimit limit;
  private final TreeCheck tree;

  /**
   * Prepares it.
   *
   * @param limit for all of it
   * @param tree a check that lets such children pass
   */
  ReleaseStep(TreeOperation operation, StepRecorder steps, WorkLimit limit, TreeCheck tree) {
    this.operation = operation;
    this.steps = steps;
    this.limit = limit;
    this.tree = tree;
  }

  /**
   * Does it, and looks at the tree again until no child holds anything.
   *
   * @param holders whom the check found; where there are none nothing is done
   * @throws dev.gpuprocess.error.FixAndRetryException with reason CUDA_CHILD when it cannot be
   *     taken from one of them, or one that came meanwhile may not be dumped
   * @throws OperationTimedOutException when the time is up
   */
  void run(List<ProcessIdentity> holders) {
    if (!holders.isEmpty()) {
      Released unused =
          steps.run("release", () -> released(holders), none -> 0L, Released::toString);
    }
  }

  private Released released(List<ProcessIdentity> holders) {
    Set<ProcessIdentity> done = new HashSet<>();
    Released all = Released.NOTHING;
    for (List<ProcessIdentity> left = holders; !left.isEmpty(); left = tree.require()) {
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
    try {
      return GpuRelease.of(child, tree.inheritanceOf(child), limitOfOne());
    } catch (NotReleasableException e) {
      if (child.isAlive()) {
        throw keeps(child, String.valueOf(e.getMessage()));
      }
      return Released.NOTHING;
    }
  }

  /** A child whose threads do not stop in this time waits in the kernel. */
  private Duration limitOfOne() {
    Duration call = operation.tree().context.timeouts().call();
    Duration left = limit.remaining();
    return call.compareTo(left) < 0 ? call : left;
  }

  private RuntimeException keeps(ProcessIdentity child, String why) {
    String device = GpuHandles.of(child.pid(), () -> {}).first().orElse("device files of the GPU");
    return ChildRefusal.keeps(child.pid(), operation.root().pid(), device, why);
  }

  private OperationTimedOutException timedOut() {
    return new OperationTimedOutException(
        "dump of process %s: taking from its forked children what they inherited of the GPU took all of the %s that the dump had; they go on, as they cannot use it: allow more time (DumpOptions.deadline)"
            .formatted(operation.root().pid(), Printable.of(limit.total())),
        Failure.of("dump", operation.root().pid()));
  }
}
