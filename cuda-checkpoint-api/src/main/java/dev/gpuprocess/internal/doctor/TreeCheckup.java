package dev.gpuprocess.internal.doctor;

import dev.gpuprocess.cuda.CudaAnswer;
import dev.gpuprocess.cuda.CudaResult;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.ProcessUnreadableException;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.dump.TreeCheck;
import dev.gpuprocess.internal.lock.ProcessLock;
import dev.gpuprocess.internal.nccl.NcclPeers;
import dev.gpuprocess.internal.proc.Freezer;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.Standstill;
import dev.gpuprocess.internal.process.ProcessKey;
import dev.gpuprocess.internal.release.GpuHandles;
import dev.gpuprocess.internal.release.Inheritance;
import dev.gpuprocess.internal.release.NotReleasableException;
import dev.gpuprocess.process.ProcessIdentity;
import java.util.Optional;
import java.util.function.IntPredicate;
import org.jspecify.annotations.Nullable;

/** Checks the processes around one: its children, and the ranks of its job. */
final class TreeCheckup {

  private final Checkup checkup;
  private final EngineContext context;
  private final ProcessIdentity process;
  private final boolean asksDriver;
  private final boolean releases;
  private final DriverQuestion driver;

  /**
   * Prepares it.
   *
   * @param asksDriver whether the driver answers at all
   * @param releases whether a dump takes from children what they inherited by fork
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
    this.driver = new DriverQuestion(checkup, context);
  }

  /** Children that use a GPU prevent a dump of the tree, but not a suspend. */
  void lookAtChildren() {
    Freezer freezer = Freezer.look();
    for (int child : ProcFs.descendants(process.pid())) {
      if (freezer.of(child) == Freezer.State.FROZEN) {
        checkup.problem(
            "child " + child, "is in a frozen cgroup, so the tree cannot be dumped", "thaw it");
      }
      GpuHandles held = GpuHandles.of(child, () -> {});
      Optional<CudaAnswer<ProcessState>> answer = asksDriver ? askState(child) : Optional.empty();
      ProcessState own = answer.map(CudaAnswer::value).orElse(null);
      if (own != null && own != ProcessState.CHECKPOINTED) {
        checkup.problem(
            "child " + child,
            "has CUDA state of its own, %s, so the tree cannot be dumped as one process"
                .formatted(own),
            "take the CUDA processes of the tree together with GpuProcess, or suspend it too");
      } else if (!held.isEmpty()) {
        boolean hasNoCuda =
            answer.filter(told -> told.result().equals(CudaResult.NOT_INITIALIZED)).isPresent();
        tellHolder(child, held, hasNoCuda);
      }
    }
  }

  private void tellHolder(int child, GpuHandles held, boolean hasNoCuda) {
    String device = held.first().orElseThrow();
    Optional<String> obstacle =
        hasNoCuda ? obstacle(child, held) : Optional.of("the driver does not say what it is");
    if (obstacle.isPresent()) {
      checkup.problem(
          "child " + child,
          "holds %s, inherited by fork or opened for NVML alone, so the tree cannot be dumped%s"
              .formatted(
                  device,
                  releases
                      ? ", and it cannot be taken from it (%s)".formatted(obstacle.get())
                      : ""),
          TreeCheck.CURES + "; end helpers that only use NVML");
    } else if (releases) {
      checkup.ok(
          "child " + child, "holds %s, inherited by fork; a dump takes it".formatted(device));
    } else {
      checkup.problem(
          "child " + child,
          "holds %s, inherited by fork, so the tree cannot be dumped".formatted(device),
          TreeCheck.CURES);
    }
  }

  /** As far as it shows without holding the child. */
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

  /** Empty when the driver cannot be asked about a child, or does not answer. */
  private Optional<CudaAnswer<ProcessState>> askState(int child) {
    return reachable(child)
        ? ProcessIdentity.of(child).flatMap(identity -> driver.state("process " + child, identity))
        : Optional.empty();
  }

  /**
   * Ranks that map each other's memory are carried by no driver below 610.
   *
   * @param state what the driver says of the process; null when that has no CUDA state
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
                  : askState(other).map(CudaAnswer::value).isPresent();
      NcclPeers.of(process.pid(), usesCuda, () -> {}).ifPresent(this::tellPeers);
    } catch (ProcessUnreadableException e) {
      checkup.warning("NCCL", "cannot be checked: " + e.getMessage(), "");
    }
  }

  private void tellPeers(NcclPeers peers) {
    if (peers.missing().isEmpty()) {
      checkup.ok("NCCL", peers.names() + " use it without mapping each other's memory");
    } else {
      checkup.warning(
          "NCCL",
          peers.names()
              + (peers.mayMapMemory()
                  ? " use it in a way in which they map each other's memory, which no driver below 610 carries"
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
