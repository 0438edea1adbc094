package dev.gpuprocess.internal.dump;

import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.CudaChildException;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.ProcessStoppedException;
import dev.gpuprocess.internal.engine.DriverOperation;
import dev.gpuprocess.internal.proc.Freezer;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ScanLimit;
import dev.gpuprocess.internal.proc.Standstill;
import dev.gpuprocess.internal.release.GpuHandles;
import dev.gpuprocess.internal.release.Inheritance;
import dev.gpuprocess.internal.release.NotReleasableException;
import dev.gpuprocess.internal.time.Polling;
import dev.gpuprocess.process.ProcessIdentity;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/**
 * Refuses to dump a tree in which a child still holds a GPU. Forked workers inherit the driver's
 * descriptors and mappings; the driver knows nothing of them, so it cannot release them, and CRIU
 * cannot dump them.
 */
final class TreeCheck {

  /** How long a child may take from {@code vfork} to the execution of a program. */
  private static final Duration EXECUTION = Duration.ofSeconds(1);

  private final DriverOperation operation;
  private final ScanLimit limit;
  private final boolean releases;
  private final Inheritance inheritance;

  /**
   * Prepares a check.
   *
   * @param releases whether children that hold only what they inherited pass, since that will be
   *     taken from them
   */
  TreeCheck(DriverOperation operation, ScanLimit limit, boolean releases) {
    this.operation = operation;
    this.limit = limit;
    this.releases = releases;
    this.inheritance = new Inheritance(operation.target().identity);
  }

  /**
   * Throws when a child has CUDA state that is not checkpointed, has device files open or mapped
   * that are not to be taken from it, or is frozen. Touches nothing.
   *
   * @return the children from which device files are to be taken
   */
  List<ProcessIdentity> require() {
    Freezer freezer = Freezer.look();
    List<ProcessIdentity> holders = new ArrayList<>();
    for (int child : ProcFs.descendants(operation.pid())) {
      requireThawed(freezer, child);
      GpuHandles held = GpuHandles.of(child, limit::check);
      if (held.isEmpty()) {
        requireCheckpointed(child);
      } else if (releases) {
        String device = held.first().orElseThrow();
        ProcessIdentity.of(child)
            .flatMap(identity -> releasable(identity, device))
            .ifPresent(holders::add);
      } else {
        throw ChildRefusal.holds(child, operation.pid(), held.first().orElseThrow(), "");
      }
    }
    return holders;
  }

  /** What it knows of the children that it has looked at. */
  Inheritance inheritance() {
    return inheritance;
  }

  /** CRIU would wait for a frozen child, and leave the tree half stopped. */
  private void requireThawed(Freezer freezer, int child) {
    if (freezer.of(child) == Freezer.State.FROZEN) {
      throw new ProcessStoppedException(
          "child %s (%s) of process %s is in a frozen cgroup, so the tree cannot be dumped: thaw it and try again"
              .formatted(child, ChildRefusal.name(child), operation.pid()),
          Failure.of("dump", operation.pid()));
    }
  }

  private void requireCheckpointed(int child) {
    // Without a device file open it can only be checkpointed, and asking could hang.
    if (Standstill.of(child).isPresent()) {
      return;
    }
    ProcessState state = operation.stateOf(child).orElse(ProcessState.CHECKPOINTED);
    if (state != ProcessState.CHECKPOINTED) {
      throw ChildRefusal.of(
          child, operation.pid(), "has CUDA state of its own, " + state, "suspend it first");
    }
  }

  /** The child, from which it is to be taken; empty when it has ended, or lost it, meanwhile. */
  private Optional<ProcessIdentity> releasable(ProcessIdentity child, String device) {
    try {
      Optional<Standstill> still = Standstill.of(child.pid()); // the driver would not answer
      if (still.isPresent()) {
        throw keeps(child, device, "it %s: %s".formatted(still.get().what(), still.get().cure()));
      }
      awaitApart(child);
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

  private CudaChildException keeps(ProcessIdentity child, String device, String why) {
    return ChildRefusal.keeps(child.pid(), operation.pid(), device, why);
  }

  private void awaitApart(ProcessIdentity child) throws NotReleasableException {
    try (Polling polling = new Polling(EXECUTION)) {
      while (!inheritance.isApart(child) && polling.pause()) {
        limit.check();
      }
    }
  }
}
