package dev.gpuprocess.criu.internal.os;

import dev.gpuprocess.internal.os.NativeLibraries;
import dev.gpuprocess.process.ProcessIdentity;
import java.util.Optional;
import jnr.posix.POSIX;
import jnr.posix.POSIXFactory;

/**
 * Calls through jnr-posix. Loading it takes a third of a second, so this class is first used while
 * CRIU is working, not before.
 */
public final class Posix {

  private static final int SIGKILL = 9;
  private static final int SIGTERM = 15;
  private static final int SIGCONT = 18;
  private static final int SIGSTOP = 19;
  private static final int WNOHANG = 1;
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

  public static boolean isRoot() {
    return LIBRARY.geteuid() == 0;
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
    } while (result < 0 && LIBRARY.errno() == LibC.EINTR);
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
   * Sends SIGTERM to exactly this process.
   *
   * @return false if it is already gone
   */
  public static boolean terminate(ProcessIdentity process) throws NativeCallException {
    return signal(process, SIGTERM);
  }

  /**
   * Sends SIGCONT to exactly this process.
   *
   * @return false if it is already gone
   */
  public static boolean resume(ProcessIdentity process) throws NativeCallException {
    return signal(process, SIGCONT);
  }

  /**
   * Sends SIGSTOP to exactly this process.
   *
   * @return false if it is already gone
   */
  public static boolean stop(ProcessIdentity process) throws NativeCallException {
    return signal(process, SIGSTOP);
  }

  private static boolean signal(ProcessIdentity process, int number) throws NativeCallException {
    if (process.pid() <= 1) {
      throw new IllegalArgumentException("never signals pid " + process.pid());
    }
    int pidfd;
    try {
      pidfd = LibC.pidfdOpen(process.pid());
    } catch (NativeCallException e) {
      if (e.errno() == LibC.ESRCH) {
        return false;
      }
      if (e.errno() != LibC.ENOSYS) {
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
      LibC.pidfdSendSignal(pidfd, number);
      return true;
    } catch (NativeCallException e) {
      if (e.errno() == LibC.ESRCH) {
        return false;
      }
      throw e;
    } finally {
      LibC.close(pidfd);
    }
  }
}
