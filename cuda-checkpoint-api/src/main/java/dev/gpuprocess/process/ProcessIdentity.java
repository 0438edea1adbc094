package dev.gpuprocess.process;

import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import java.util.Optional;

/**
 * One process for its whole life: its pid and when it started. A pid alone is not an identity, the
 * kernel gives it out again.
 *
 * @param pid the process id, greater than 0
 * @param startTicks when it started, in clock ticks since boot ({@code starttime} in {@code
 *     /proc/PID/stat})
 */
public record ProcessIdentity(int pid, long startTicks) {

  /**
   * Reads who has this pid now.
   *
   * @param pid any number
   * @return the identity, empty when there is no such process; a zombie still has one
   * @throws dev.gpuprocess.error.ProcessUnreadableException when the kernel could not be asked, as
   *     when this JVM has too many files open
   */
  public static Optional<ProcessIdentity> of(long pid) {
    return ProcFs.stat(pid).map(stat -> new ProcessIdentity(stat.pid(), stat.startTicks()));
  }

  /**
   * Tells whether this very process still runs. One whose first thread has ended runs as long as
   * another of its threads does.
   *
   * @return false when it ended, is a zombie, or its pid belongs to another process now
   * @throws dev.gpuprocess.error.ProcessUnreadableException when the kernel could not be asked
   */
  public boolean isAlive() {
    return stat().map(stat -> !stat.isDead()).orElse(false);
  }

  /**
   * Reads what the kernel says of this very process.
   *
   * @return empty when it is gone or its pid belongs to another process now
   * @throws dev.gpuprocess.error.ProcessUnreadableException when the kernel could not be asked
   */
  public Optional<ProcStat> stat() {
    return ProcFs.stat(pid).filter(stat -> stat.startTicks() == startTicks);
  }
}
