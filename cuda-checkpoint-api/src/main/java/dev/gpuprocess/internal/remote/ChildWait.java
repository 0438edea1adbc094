package dev.gpuprocess.internal.remote;

import dev.gpuprocess.internal.launch.LaunchedRoot;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.Unreadable;

/**
 * The wait of the JDK for a process that it has started: a thread of this JVM in {@code waitpid} or
 * {@code waitid}. The kernel ends such a wait also when a thread of this JVM traces the process and
 * the first thread of the process stops, and the JDK takes that for the exit.
 *
 * <p>The JDK does not wait for each child. A JVM that is a subreaper, or the first process of a
 * container, becomes the parent of processes that it did not start: those that CRIU has restored,
 * for example.
 */
final class ChildWait {

  private static final int WAIT4 = 61;
  private static final int WAITID = 247;
  private static final int P_ALL = 0;
  private static final int P_PID = 1;

  private ChildWait() {}

  /**
   * Returns whether the JDK waits for a process, or is about to. Launched processes do not count:
   * they are awaited by pidfd, for which a stop is not an exit.
   */
  static boolean isFor(int pid) {
    int self = Math.toIntExact(ProcessHandle.current().pid());
    return ProcFs.stat(pid).filter(stat -> stat.parent() == self).isPresent()
        && !LaunchedRoot.isRoot(pid)
        && (isStartedHere(pid, self)
            || ProcFs.threads(self).stream().anyMatch(thread -> isFor(pid, call(thread))));
  }

  /**
   * Orphans become children of the first thread, on which the JVM runs no Java code. So a child of
   * another thread was started here, and the JDK waits for it soon.
   */
  private static boolean isStartedHere(int pid, int self) {
    return !ProcFs.childrenOfFirstThread(self).contains(pid);
  }

  private static long[] call(int thread) {
    return CallText.words(Unreadable.as("", () -> ProcFs.read(thread, "syscall").orElse("")));
  }

  /**
   * Returns whether a call waits for a child.
   *
   * @param call its number, and its arguments
   */
  static boolean isFor(int pid, long[] call) {
    if (call.length < 3) {
      return false;
    }
    int kind = (int) call[1];
    return switch ((int) call[0]) {
      case WAIT4 -> kind == pid || kind <= 0; // of any child, or of any in a process group
      case WAITID -> kind == P_ALL || (kind == P_PID && (int) call[2] == pid);
      default -> false;
    };
  }
}
