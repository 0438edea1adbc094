package dev.gpuprocess.internal.engine;

import dev.gpuprocess.cuda.CudaDriver;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.error.ProcessUnfitException;
import dev.gpuprocess.internal.call.StateReading;
import dev.gpuprocess.internal.machine.NcclPeers;
import dev.gpuprocess.internal.proc.Environment;
import dev.gpuprocess.internal.proc.ProcessUnreadableException;
import dev.gpuprocess.internal.time.WorkLimit;
import java.time.Duration;
import java.util.LinkedHashSet;
import java.util.Set;
import java.util.concurrent.TimeoutException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Refuses NCCL ranks that map each other's GPU memory. Driver 580 checkpoints them, and then
 * answers NOT_SUPPORTED to every restore (measured on two H200 with NCCL over NVLink): the process
 * would be lost.
 */
final class PeerMemoryCheck {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  /** The first driver that restores such memory, for processes with one job file. */
  private static final int FIRST_DRIVER = 610;

  private static final String JOB_FILE = "CUDA_CHECKPOINT_JOB_FILE";

  /** The lock has used its time when advice is needed. */
  private static final Duration ADVICE_LIMIT = Duration.ofSeconds(2);

  private PeerMemoryCheck() {}

  /**
   * Checks a process, whether it is locked already or not.
   *
   * @throws ProcessUnfitException with reason UNSUPPORTED_BY_DRIVER when it has such ranks
   */
  static void require(TrackedTree tree, String verb) {
    if (tree.context.allowPeerMemory() || tree.members().isEmpty()) {
      return;
    }
    int root = tree.root.pid();
    Set<Integer> pids = new LinkedHashSet<>();
    if (tree.root.isAlive()) {
      pids.add(root);
    }
    tree.members().forEach(member -> pids.add(member.pid()));
    WorkLimit limit = WorkLimit.scanning(verb, root, tree.context.timeouts().call());
    try {
      NcclPeers.communicating(pids, limit::check)
          .filter(NcclPeers::mayMapMemory)
          .filter(peers -> !isSupported(tree, peers))
          .ifPresent(
              peers -> {
                throw new ProcessUnfitException(
                    ProcessUnfitException.Reason.UNSUPPORTED_BY_DRIVER,
                    "%s use NCCL in a way that maps each other's GPU memory, which no driver below %s restores, so they are not checkpointed: start the process with %s in its environment, or, if it does without such memory, declare that with GpuCheckpoints.Builder.allowPeerMemory(true)"
                        .formatted(peers.names(), FIRST_DRIVER, peers.settings()),
                    Failure.of(verb, root));
              });
    } catch (ProcessUnreadableException e) {
      LOG.warn("whether process {} has ranks that map each other's memory is not known", root, e);
    }
  }

  private static boolean isSupported(TrackedTree tree, NcclPeers peers) {
    return tree.context.inventory().driverVersion().map(PeerMemoryCheck::major).orElse(0)
            >= FIRST_DRIVER
        && peers.processes().stream()
            .noneMatch(pid -> Environment.of(pid, Set.of(JOB_FILE)).isEmpty());
  }

  /** Returns the first number of a version such as 580.159.04. */
  private static int major(String version) {
    String digits = version.replaceFirst("\\D.*", "");
    return digits.isEmpty() || digits.length() > 6 ? 0 : Integer.parseInt(digits);
  }

  /**
   * Returns an addition to the message about a lock that timed out, if the process is such a rank:
   * it then waits for other ranks, and could not be checkpointed anyway. Otherwise empty.
   */
  static String advice(TrackedProcess process) {
    WorkLimit limit = WorkLimit.scanning("lock", process.pid(), ADVICE_LIMIT);
    CudaDriver cuda = process.context.cuda();
    try {
      return NcclPeers.of(
              process.pid(),
              other -> other == process.pid() || usesCuda(cuda, other, limit.remaining()),
              limit::check)
          .filter(NcclPeers::mayMapMemory)
          .map(
              peers ->
                  "; %s use NCCL in a way that maps each other's GPU memory, which no driver below %s restores: start the process with %s"
                      .formatted(peers.names(), FIRST_DRIVER, peers.settings()))
          .orElse("");
    } catch (ProcessUnreadableException | OperationTimedOutException e) {
      LOG.debug("whether process {} is a rank of NCCL is not known", process.pid(), e);
      return "";
    }
  }

  /** The driver answers at once for a process without CUDA; for a rank it may not answer at all. */
  private static boolean usesCuda(CudaDriver cuda, int other, Duration left) {
    try {
      return StateReading.ask(cuda, other).await(left).value() != null;
    } catch (TimeoutException e) {
      return true;
    }
  }
}
