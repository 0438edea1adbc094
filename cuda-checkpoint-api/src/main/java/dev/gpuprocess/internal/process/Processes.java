package dev.gpuprocess.internal.process;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.ProcessUnreadableException;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.process.ProcessIdentity;
import java.util.Optional;

/** One process by its identity. */
public final class Processes {

  private Processes() {}

  /**
   * Sends SIGKILL to exactly this process: the JDK's handle checks the start time too. Does nothing
   * when it has ended.
   *
   * @throws ProcessUnreadableException when {@code /proc} cannot be read
   */
  public static void kill(ProcessIdentity process) {
    Optional<ProcessHandle> handle = ProcessHandle.of(process.pid());
    if (process.isAlive()) {
      // The JDK takes what it cannot read for gone.
      boolean unused = handle.orElseThrow(() -> unread(process)).destroyForcibly();
    }
  }

  private static ProcessUnreadableException unread(ProcessIdentity process) {
    return new ProcessUnreadableException(
        "process %s could not be looked at and was not killed: try again".formatted(process.pid()),
        Failure.of("kill", process.pid()));
  }

  /**
   * Reads its {@code stat} file.
   *
   * @return empty when it is gone, or its pid belongs to another process now
   * @throws ProcessUnreadableException when {@code /proc} cannot be read
   */
  public static Optional<ProcStat> stat(ProcessIdentity process) {
    return ProcFs.stat(process.pid()).filter(stat -> stat.startTicks() == process.startTicks());
  }
}
