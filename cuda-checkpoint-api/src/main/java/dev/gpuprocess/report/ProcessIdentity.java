package dev.gpuprocess.report;

import dev.gpuprocess.internal.proc.ProcFs;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * One process for its whole life: its pid and when it started. A pid alone is not an identity,
 * because the kernel reuses it. Immutable.
 *
 * @param pid the process id, greater than 0
 * @param startTicks when it started, in clock ticks since boot ({@code starttime} in {@code
 *     /proc/PID/stat})
 */
public record ProcessIdentity(int pid, long startTicks) {

  /**
   * Identifies the process that has a pid now.
   *
   * @param pid any number
   * @return its identity; empty when the process does not exist; a zombie still has one
   * @throws dev.gpuprocess.error.RetryLaterException with reason PROCESS_UNREADABLE when {@code
   *     /proc} cannot be read, for example because this JVM has too many files open
   */
  public static Optional<ProcessIdentity> of(long pid) {
    return ProcFs.stat(pid).map(stat -> new ProcessIdentity(stat.pid(), stat.startTicks()));
  }

  /**
   * Tells whether this very process still runs. A process whose main thread has ended runs as long
   * as one of its other threads does.
   *
   * @return false when it ended, is a zombie, or its pid belongs to another process now
   * @throws dev.gpuprocess.error.RetryLaterException with reason PROCESS_UNREADABLE when {@code
   *     /proc} cannot be read
   */
  public boolean isAlive() {
    return ProcFs.stat(pid)
        .filter(stat -> stat.startTicks() == startTicks)
        .map(stat -> !stat.isDead())
        .orElse(false);
  }

  // Written out, since the first call of a record's own method takes 20 ms in a short program.

  @Override
  public boolean equals(@Nullable Object other) {
    return other instanceof ProcessIdentity same
        && pid == same.pid
        && startTicks == same.startTicks;
  }

  @Override
  public int hashCode() {
    return 31 * pid + Long.hashCode(startTicks);
  }
}
