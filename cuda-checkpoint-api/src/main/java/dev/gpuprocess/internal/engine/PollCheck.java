package dev.gpuprocess.internal.engine;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.FixAndRetryException;
import dev.gpuprocess.internal.memory.LockGate;
import dev.gpuprocess.report.ProcessIdentity;
import java.util.Optional;

/**
 * Refuses a checkpoint of a process that polls the driver and cannot be given a gate. The
 * checkpoint would unmap memory that the poll reads, and the process would die of SIGSEGV.
 *
 * @see <a href="https://docs.nvidia.com/cuda/cuda-driver-api/">the CUDA driver API</a>
 */
public final class PollCheck {

  /** How a caller allows such a checkpoint. */
  public static final String OPTION = "allow it with GpuCheckpoints.Builder.allowPolls(true)";

  private PollCheck() {}

  /**
   * Returns why a checkpoint could kill a process.
   *
   * @return the rest of a sentence about the process; empty if no reason is known
   */
  public static Optional<String> obstacle(ProcessIdentity process) {
    return LockGate.obstacle(process)
        .map(why -> "its polls of the driver cannot be made to wait: " + why);
  }

  /**
   * Refuses such members.
   *
   * @throws FixAndRetryException with the reason {@link FixAndRetryException.Reason#POLLS}
   */
  static void require(TreeOperation operation) {
    if (!operation.tree().context.allowPolls()) {
      Parallel.forEach(
          operation.members(), each -> require(each.process(), each.failure(null, null)));
    }
  }

  /** Refuses such a process. */
  static void require(TrackedProcess process, Failure failure) {
    Optional<String> obstacle =
        process.context.allowPolls() ? Optional.empty() : obstacle(process.identity);
    if (obstacle.isPresent()) {
      throw new FixAndRetryException(
          FixAndRetryException.Reason.POLLS,
          "process %s was not checkpointed, as that could kill it: %s, or %s"
              .formatted(process.pid(), obstacle.get(), OPTION),
          failure);
    }
  }
}
