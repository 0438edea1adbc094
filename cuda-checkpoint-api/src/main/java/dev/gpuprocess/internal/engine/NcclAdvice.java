package dev.gpuprocess.internal.engine;

import dev.gpuprocess.cuda.CudaDriver;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.error.ProcessUnreadableException;
import dev.gpuprocess.internal.call.StateReading;
import dev.gpuprocess.internal.machine.NcclPeers;
import dev.gpuprocess.internal.time.WorkLimit;
import java.time.Duration;
import java.util.concurrent.TimeoutException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What to say of a lock that timed out in a tree whose processes talk through NCCL. A rank waits
 * for others then, and could not be checkpointed anyway.
 */
final class NcclAdvice {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  /** The lock has taken its time already. */
  private static final Duration LIMIT = Duration.ofSeconds(2);

  private NcclAdvice() {}

  /** More words for the message, or none. */
  static String of(TrackedProcess target) {
    WorkLimit limit = WorkLimit.scanning("lock", target.pid(), LIMIT);
    CudaDriver cuda = target.context.cuda();
    try {
      return NcclPeers.of(
              target.pid(),
              other -> other == target.pid() || usesCuda(cuda, other, limit.remaining()),
              limit::check)
          .filter(NcclPeers::mayMapMemory)
          .map(
              peers ->
                  "; %s use NCCL in a way in which they map each other's memory, which no driver below 610 carries: start the process with %s"
                      .formatted(peers.names(), peers.settings()))
          .orElse("");
    } catch (ProcessUnreadableException | OperationTimedOutException e) {
      LOG.debug("whether process {} is a rank of NCCL is not known", target.pid(), e);
      return "";
    }
  }

  /** Of a process without CUDA the driver says so at once; of a rank it may not say anything. */
  private static boolean usesCuda(CudaDriver cuda, int other, Duration left) {
    StateReading reading = StateReading.ask(cuda, other);
    try {
      return reading.await(left).value() != null;
    } catch (TimeoutException e) {
      reading.leave();
      return true;
    }
  }
}
