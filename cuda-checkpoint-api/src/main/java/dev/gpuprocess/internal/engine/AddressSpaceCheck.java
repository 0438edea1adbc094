package dev.gpuprocess.internal.engine;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.FixAndRetryException;
import dev.gpuprocess.internal.proc.ProcLimit;
import dev.gpuprocess.internal.text.Bytes;
import java.util.Optional;
import java.util.OptionalLong;

/**
 * Checks that the limits of a process let the driver map its save area. Otherwise the checkpoint
 * fails, and the process can never use its GPU again.
 *
 * @see <a href="https://man7.org/linux/man-pages/man2/getrlimit.2.html">getrlimit(2)</a>
 */
public final class AddressSpaceCheck {

  private AddressSpaceCheck() {}

  /**
   * Returns why a process cannot be checkpointed.
   *
   * @param pid the process
   * @param bytes the GPU memory that it holds
   * @param isPrepared whether the save area is a file and not private memory
   * @return the rest of a sentence about the process; empty if no reason is known
   */
  public static Optional<String> obstacle(int pid, long bytes, boolean isPrepared) {
    long needed = bytes + HostMemoryCheck.SPARE_BYTES;
    Optional<String> space =
        obstacle(pid, needed, ProcLimit.ADDRESS_SPACE, "address space (RLIMIT_AS)");
    return isPrepared || space.isPresent()
        ? space
        : obstacle(pid, needed, ProcLimit.DATA, "data (RLIMIT_DATA)");
  }

  private static Optional<String> obstacle(int pid, long needed, ProcLimit limit, String what) {
    OptionalLong room = limit.room(pid);
    return room.isPresent() && room.getAsLong() < needed
        ? Optional.of(
            "its limit of %s leaves it %s, and the driver needs %s"
                .formatted(what, Bytes.text(room.getAsLong()), Bytes.text(needed)))
        : Optional.empty();
  }

  /** Returns the command that raises the limits. */
  public static String cure(int pid) {
    return "raise the limit (prlimit --pid %s --as=unlimited --data=unlimited)".formatted(pid);
  }

  /**
   * Refuses a checkpoint for which a process may not map enough.
   *
   * @param pid as for {@link #obstacle}
   * @param option the option with which the save area would be a file, or empty
   * @throws FixAndRetryException with the reason {@link FixAndRetryException.Reason#HOST_MEMORY}
   */
  static void require(int pid, long bytes, boolean isPrepared, String option, Failure failure) {
    Optional<String> obstacle = obstacle(pid, bytes, isPrepared);
    if (obstacle.isPresent()) {
      throw new FixAndRetryException(
          FixAndRetryException.Reason.HOST_MEMORY,
          "process %s was not checkpointed: %s; %s%s"
              .formatted(
                  pid,
                  obstacle.get(),
                  cure(pid),
                  obstacle(pid, bytes, true).isPresent() ? "" : option),
          failure);
    }
  }
}
