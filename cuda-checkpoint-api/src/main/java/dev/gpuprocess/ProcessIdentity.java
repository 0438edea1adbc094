package dev.gpuprocess;

import dev.gpuprocess.proc.ProcFs;
import dev.gpuprocess.proc.ProcStat;
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
   */
  public static Optional<ProcessIdentity> of(long pid) {
    return ProcFs.stat(pid).map(stat -> new ProcessIdentity(stat.pid(), stat.startTicks()));
  }

  /**
   * Tells whether this very process still runs.
   *
   * @return false when it ended, is a zombie, or its pid belongs to another process now
   */
  public boolean isAlive() {
    return stat().map(stat -> !stat.isDead()).orElse(false);
  }

  /**
   * Reads what the kernel says of this very process.
   *
   * @return empty when it is gone or its pid belongs to another process now
   */
  public Optional<ProcStat> stat() {
    return ProcFs.stat(pid).filter(stat -> stat.startTicks() == startTicks);
  }
}
