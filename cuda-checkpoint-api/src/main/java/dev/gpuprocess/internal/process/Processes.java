package dev.gpuprocess.internal.process;

import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.process.ProcessIdentity;
import java.util.Optional;

/** One process by its identity. */
public final class Processes {

  private Processes() {}

  /** Sends SIGKILL to exactly this process: the JDK's handle checks the start time too. */
  public static void kill(ProcessIdentity process) {
    ProcessHandle.of(process.pid())
        .filter(handle -> process.isAlive())
        .ifPresent(ProcessHandle::destroyForcibly);
  }

  /**
   * Reads its {@code stat} file.
   *
   * @return empty when it is gone, or its pid belongs to another process now
   * @throws dev.gpuprocess.error.ProcessUnreadableException when {@code /proc} cannot be read
   */
  public static Optional<ProcStat> stat(ProcessIdentity process) {
    return ProcFs.stat(process.pid()).filter(stat -> stat.startTicks() == process.startTicks());
  }
}
