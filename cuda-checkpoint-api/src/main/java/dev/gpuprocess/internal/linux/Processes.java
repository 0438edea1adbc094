package dev.gpuprocess.internal.linux;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.internal.proc.ProcessUnreadableException;
import dev.gpuprocess.internal.proc.Signals;
import dev.gpuprocess.report.ProcessIdentity;
import java.util.Optional;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** One process by its identity. */
public final class Processes {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  private Processes() {}

  /**
   * Sends SIGKILL to exactly this process. Does nothing when it has ended, or belongs to a user
   * whose processes this JVM may not kill.
   *
   * @throws ProcessUnreadableException when it is not known whether the process was killed
   */
  public static void kill(ProcessIdentity process) {
    try {
      boolean unused = signal(process, Signals.SIGKILL);
    } catch (NativeCallException e) {
      if (!e.isNotPermitted()) {
        throw new ProcessUnreadableException(
            "process %s was not killed: try again".formatted(process.pid()),
            Failure.of("kill", process.pid()),
            e);
      }
      LOG.debug("process {} cannot be killed", process.pid(), e);
    }
  }

  /**
   * Sends a signal to exactly this process.
   *
   * @return false when it has ended
   * @throws NativeCallException when the signal could not be sent
   * @throws ProcessUnreadableException when {@code /proc} cannot be read
   */
  public static boolean signal(ProcessIdentity process, int number) throws NativeCallException {
    requireOther(process.pid());
    try (PidDescriptor held = PidDescriptor.open(process.pid())) {
      // The descriptor stays with the process it was opened on, so a check after opening is exact.
      return process.isAlive() && held.signal(number);
    } catch (NativeCallException e) {
      if (e.isGone()) {
        return false;
      }
      if (!e.isUnavailable()) {
        throw e;
      }
      // The pid could be reused between these two calls only if the process is reaped between them
      // and all other pids are used up first.
      return process.isAlive() && signalByPid(process.pid(), number);
    }
  }

  /**
   * Sends a signal to a child that was not reaped, whose pid therefore is its own.
   *
   * @return false when the process does not exist
   */
  public static boolean signalChild(int pid, int number) throws NativeCallException {
    requireOther(pid);
    return signalByPid(pid, number);
  }

  private static boolean signalByPid(int pid, int number) throws NativeCallException {
    if (Libc.LIBRARY.kill(pid, number) == 0) {
      return true;
    }
    if (Libc.errno() == Libc.ESRCH) {
      return false;
    }
    throw Libc.failure("kill " + pid, Libc.errno());
  }

  private static void requireOther(int pid) {
    if (pid <= 1 || pid == ProcessHandle.current().pid()) {
      throw new IllegalArgumentException("never signals pid " + pid);
    }
  }

  /**
   * Reads the {@code stat} file of a process.
   *
   * @return empty when it is gone, or its pid belongs to another process now
   * @throws ProcessUnreadableException when {@code /proc} cannot be read
   */
  public static Optional<ProcStat> stat(ProcessIdentity process) {
    return ProcFs.stat(process.pid()).filter(stat -> stat.startTicks() == process.startTicks());
  }
}
