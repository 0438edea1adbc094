package dev.gpuprocess.internal.engine;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.ProcessUnfitException;
import dev.gpuprocess.error.ProcessUnreadableException;
import dev.gpuprocess.internal.machine.NcclPeers;
import dev.gpuprocess.internal.proc.Environment;
import dev.gpuprocess.internal.time.WorkLimit;
import java.util.LinkedHashSet;
import java.util.Set;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Refuses ranks that map each other's GPU memory. Driver 580 checkpoints them, and then answers
 * NOT_SUPPORTED to every restore (measured on two H200 with NCCL over NVLink): the process would be
 * lost.
 */
final class PeerMemoryCheck {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  /** The first driver that carries such memory, for processes with one job file. */
  private static final int FIRST_DRIVER = 610;

  private static final String JOB_FILE = "CUDA_CHECKPOINT_JOB_FILE";

  private PeerMemoryCheck() {}

  /**
   * Looks at a process, whether it is locked already or not.
   *
   * @throws ProcessUnfitException with reason UNSUPPORTED_BY_DRIVER when it has such ranks
   */
  static void require(TrackedTree job, String verb) {
    if (job.context.allowPeerMemory() || job.members().isEmpty()) {
      return;
    }
    int root = job.root.pid();
    Set<Integer> pids = new LinkedHashSet<>();
    if (job.root.isAlive()) {
      pids.add(root);
    }
    job.members().forEach(member -> pids.add(member.pid()));
    WorkLimit limit = WorkLimit.scanning(verb, root, job.context.timeouts().call());
    try {
      NcclPeers.communicating(pids, limit::check)
          .filter(NcclPeers::mayMapMemory)
          .filter(peers -> !isCarried(job, peers))
          .ifPresent(
              peers -> {
                throw new ProcessUnfitException(
                    ProcessUnfitException.Reason.UNSUPPORTED_BY_DRIVER,
                    "%s talk through NCCL in a way in which they map each other's GPU memory, which no driver below %s brings back once it is checkpointed; so they are not: start the process with %s in its environment, or, if they do without such memory, say so with GpuCheckpoints.Builder.allowPeerMemory(true)"
                        .formatted(peers.names(), FIRST_DRIVER, peers.settings()),
                    Failure.of(verb, root));
              });
    } catch (ProcessUnreadableException e) {
      LOG.warn("whether process {} has ranks that map each other's memory is not known", root, e);
    }
  }

  private static boolean isCarried(TrackedTree job, NcclPeers peers) {
    return job.context.inventory().driverVersion().map(PeerMemoryCheck::major).orElse(0)
            >= FIRST_DRIVER
        && peers.processes().stream()
            .noneMatch(pid -> Environment.of(pid, Set.of(JOB_FILE)).isEmpty());
  }

  /** Of a version such as 580.159.04. */
  private static int major(String version) {
    String digits = version.replaceFirst("\\D.*", "");
    return digits.isEmpty() || digits.length() > 6 ? 0 : Integer.parseInt(digits);
  }
}
