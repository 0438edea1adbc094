package dev.gpuprocess.internal.doctor;

import dev.gpuprocess.cuda.CudaAnswer;
import dev.gpuprocess.cuda.CudaResult;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.dump.TreeCheck;
import dev.gpuprocess.internal.inherited.GpuHandles;
import dev.gpuprocess.internal.inherited.Inheritance;
import dev.gpuprocess.internal.inherited.NotReleasableException;
import dev.gpuprocess.internal.linux.ProcessKey;
import dev.gpuprocess.internal.machine.NcclPeers;
import dev.gpuprocess.internal.proc.Freezer;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcessUnreadableException;
import dev.gpuprocess.internal.proc.Standstill;
import dev.gpuprocess.internal.state.ProcessLock;
import dev.gpuprocess.report.ProcessIdentity;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.function.IntPredicate;
import org.jspecify.annotations.Nullable;

/** Checks the children of a process, and the other ranks of its NCCL communicator. */
final class TreeCheckup {

  private final Checkup checkup;
  private final EngineContext context;
  private final ProcessIdentity process;
  private final boolean asksDriver;
  private final boolean releases;
  private final Map<ProcessIdentity, ProcessState> members = new LinkedHashMap<>();

  /**
   * Creates the checks.
   *
   * @param asksDriver whether the driver answers at all
   * @param releases whether a dump releases device files that children inherited by fork
   */
  TreeCheckup(
      Checkup checkup,
      EngineContext context,
      ProcessIdentity process,
      boolean asksDriver,
      boolean releases) {
    this.checkup = checkup;
    this.context = context;
    this.process = process;
    this.asksDriver = asksDriver;
    this.releases = releases;
  }

  /**
   * Children with CUDA state are members of the tree. Others that use a GPU prevent a dump of the
   * tree, but not a suspend.
   */
  void lookAtChildren() {
    Freezer freezer = Freezer.look();
    for (int child : ProcFs.descendants(process.pid())) {
      if (freezer.of(child) == Freezer.State.FROZEN) {
        checkup.problem(
            "child " + child, "is in a frozen cgroup, so the tree cannot be dumped", "thaw it");
      }
      GpuHandles held = GpuHandles.of(child, () -> {});
      Optional<CudaAnswer<ProcessState>> answer = asksDriver ? state(child) : Optional.empty();
      ProcessState own = answer.map(CudaAnswer::value).orElse(null);
      if (own != null) {
        addMember(child, own);
      } else if (!held.isEmpty()) {
        boolean hasNoCuda =
            answer.filter(given -> given.result().equals(CudaResult.NOT_INITIALIZED)).isPresent();
        addHolder(child, held, hasNoCuda);
      }
    }
  }

  private void addMember(int child, ProcessState state) {
    ProcessIdentity.of(child).ifPresent(identity -> members.put(identity, state));
    if (state == ProcessState.FAILED) {
      checkup.problem(
          "child " + child,
          "is FAILED, and cannot be brought back",
          "end the tree and restore an image of it, if there is one");
    } else {
      checkup.ok("child " + child, "is %s, and is taken with the process".formatted(state));
    }
  }

  /** Returns the children with CUDA state that were found, and their states. */
  Map<ProcessIdentity, ProcessState> members() {
    return members;
  }

  private void addHolder(int child, GpuHandles held, boolean hasNoCuda) {
    String device = held.first().orElseThrow();
    Optional<String> obstacle =
        hasNoCuda ? obstacle(child, held) : Optional.of("the driver does not report its state");
    if (obstacle.isPresent()) {
      checkup.problem(
          "child " + child,
          "holds %s, inherited by fork or opened for NVML, so the tree cannot be dumped%s"
              .formatted(
                  device,
                  releases ? ", and a dump cannot release it (%s)".formatted(obstacle.get()) : ""),
          TreeCheck.CURES + "; end helpers that only use NVML");
    } else if (releases) {
      checkup.ok(
          "child " + child, "holds %s, inherited by fork; a dump releases it".formatted(device));
    } else {
      checkup.problem(
          "child " + child,
          "holds %s, inherited by fork, so the tree cannot be dumped".formatted(device),
          TreeCheck.CURES);
    }
  }

  /** Returns why it cannot be released, as far as that is known without stopping the child. */
  private Optional<String> obstacle(int child, GpuHandles held) {
    try {
      Optional<ProcessIdentity> identity = ProcessIdentity.of(child);
      if (identity.isPresent()) {
        new Inheritance(process).require(identity.get(), held);
      }
      return Optional.empty();
    } catch (NotReleasableException e) {
      return Optional.of(String.valueOf(e.getMessage()));
    }
  }

  /** Returns the state of a child; empty if the driver would hang, or does not answer. */
  private Optional<CudaAnswer<ProcessState>> state(int child) {
    return reachable(child)
        ? ProcessIdentity.of(child)
            .flatMap(identity -> checkup.state(context, "process " + child, identity))
        : Optional.empty();
  }

  /**
   * Checks for ranks that map each other's memory, which no driver below 610 restores.
   *
   * @param state the state of the process; null if it has no CUDA state
   */
  void lookAtNccl(@Nullable ProcessState state) {
    if (!asksDriver) {
      return;
    }
    try {
      IntPredicate usesCuda =
          other ->
              other == process.pid()
                  ? state != null
                  : state(other).map(CudaAnswer::value).isPresent();
      NcclPeers.of(process.pid(), usesCuda, () -> {}).ifPresent(this::addPeers);
    } catch (ProcessUnreadableException e) {
      checkup.warning("NCCL", "cannot be checked: " + e.getMessage(), "");
    }
  }

  private void addPeers(NcclPeers peers) {
    if (peers.missing().isEmpty()) {
      checkup.ok("NCCL", peers.names() + " use it without mapping each other's memory");
    } else {
      checkup.warning(
          "NCCL",
          peers.names()
              + (peers.mayMapMemory()
                  ? " use it in a way that maps each other's GPU memory, which no driver below 610 restores"
                  : " use it without mapping each other's memory; PyTorch's rendezvous may use io_uring, which CRIU does not dump"),
          "start the process with " + peers.settings());
    }
  }

  private boolean reachable(int pid) {
    boolean atCriu =
        ProcessIdentity.of(pid)
            .flatMap(child -> ProcessLock.holderAtCriu(ProcessKey.of(child), context.state()))
            .isPresent();
    return !atCriu
        && ProcFs.stat(pid).map(stat -> !stat.isDead()).orElse(false)
        && Standstill.of(pid).isEmpty()
        && !ProcFs.isFrozen(pid);
  }
}
