package dev.gpuprocess.criu.internal.os;

import dev.gpuprocess.internal.linux.Libc;
import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.linux.NativeLibraries;
import dev.gpuprocess.process.ProcessIdentity;
import java.nio.file.Path;
import java.util.Optional;
import jnr.posix.FileStat;
import jnr.posix.POSIX;
import jnr.posix.POSIXFactory;

/**
 * Calls through jnr-posix. Loading it takes a third of a second, so this class is first used while
 * CRIU is working, not before.
 */
public final class Posix {

  private static final int SIGKILL = 9;
  private static final int SIGCONT = 18;
  private static final int SIGSTOP = 19;
  private static final int WNOHANG = 1;
  private static final int BLOCK_BYTES = 512;
  private static final POSIX LIBRARY;

  static {
    NativeLibraries.prepare();
    LIBRARY = POSIXFactory.getNativePOSIX();
  }

  private Posix() {}

  /** Loads the library now rather than at the first call. */
  public static void load() {
    LIBRARY.getpid();
  }

  /** What a file takes on its disk; 0 if it is gone. */
  public static long allocatedBytes(Path file) {
    FileStat stat = LIBRARY.allocateStat();
    return LIBRARY.stat(file.toString(), stat) == 0 ? stat.blocks() * BLOCK_BYTES : 0;
  }

  /**
   * Reaps our child if it has ended. Always for one given pid: the JDK reaps its own children.
   *
   * @return empty while it runs
   */
  public static Optional<ExitStatus> reap(int pid) throws NativeCallException {
    int[] status = new int[1];
    int result;
    do {
      result = LIBRARY.waitpid(pid, status, WNOHANG);
    } while (result < 0 && LIBRARY.errno() == Libc.EINTR);
    if (result == 0) {
      return Optional.empty();
    }
    // ECHILD, the only other error: SIGCHLD is ignored, so the kernel has reaped the child.
    return Optional.of(result < 0 ? ExitStatus.UNKNOWN : ExitStatus.ofWaitStatus(status[0]));
  }

  /**
   * Sends SIGKILL to exactly this process.
   *
   * @return false if it is already gone
   */
  public static boolean kill(ProcessIdentity process) throws NativeCallException {
    return signal(process, SIGKILL);
  }

  /**
   * Signals a child that has not been reaped, or its process group.
   *
   * @param target its pid, which nobody else can have; negative for its group
   * @return false if there is no such process
   */
  static boolean signalChild(int target, int number) throws NativeCallException {
    if (Math.abs(target) <= 1) {
      throw new IllegalArgumentException("never signals pid " + target);
    }
    if (LIBRARY.kill(target, number) == 0) {
      return true;
    }
    if (LIBRARY.errno() == Libc.ESRCH) {
      return false;
    }
    throw Libc.failure("kill " + target, LIBRARY.errno());
  }

  /**
   * Sends SIGSTOP to exactly this process.
   *
   * @return false if it is already gone
   */
  public static boolean stop(ProcessIdentity process) throws NativeCallException {
    return signal(process, SIGSTOP);
  }

  /**
   * Sends SIGCONT to exactly this process.
   *
   * @return false if it is already gone
   */
  public static boolean resume(ProcessIdentity process) throws NativeCallException {
    return signal(process, SIGCONT);
  }

  private static boolean signal(ProcessIdentity process, int number) throws NativeCallException {
    if (process.pid() <= 1) {
      throw new IllegalArgumentException("never signals pid " + process.pid());
    }
    int pidfd;
    try {
      pidfd = LinuxCalls.pidfdOpen(process.pid());
    } catch (NativeCallException e) {
      if (e.isGone()) {
        return false;
      }
      if (e.errno() != LinuxCalls.ENOSYS) {
        throw e;
      }
      // Before Linux 5.3. The pid could be reused between these two calls only if the process is
      // reaped meanwhile and all other pids are used up first.
      return process.isAlive() && LIBRARY.kill(process.pid(), number) == 0;
    }
    try {
      // The descriptor stays with the process it was opened on, so checking after opening is exact.
      if (!process.isAlive()) {
        return false;
      }
      LinuxCalls.pidfdSendSignal(pidfd, number);
      return true;
    } catch (NativeCallException e) {
      if (e.isGone()) {
        return false;
      }
      throw e;
    } finally {
      Libc.close(pidfd);
    }
  }
}
