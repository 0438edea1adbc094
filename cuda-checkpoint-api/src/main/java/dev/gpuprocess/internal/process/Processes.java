package dev.gpuprocess.internal.process;

import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.process.ProcessIdentity;
import java.util.Optional;

/** What the kernel says of one very process. */
public final class Processes {

  private Processes() {}

  /**
   * Reads its state.
   *
   * @return empty when it is gone or its pid belongs to another process now
   * @throws dev.gpuprocess.error.ProcessUnreadableException when the kernel could not be asked
   */
  public static Optional<ProcStat> stat(ProcessIdentity process) {
    return ProcFs.stat(process.pid()).filter(stat -> stat.startTicks() == process.startTicks());
  }
}
