package dev.gpuprocess.internal.remote;

import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.internal.remote.UntraceableException.Reason;
import dev.gpuprocess.report.ProcessIdentity;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;

/**
 * The thread by which the CUDA driver serves checkpoint calls in a process. It is found by its
 * name: {@code cuCheckpointProcessGetRestoreThreadId} is one more call that can hang, and the pid
 * namespace of its result is not documented.
 */
public final class RestoreThread {

  private static final Pattern NAME = Pattern.compile("cuda[0-9a-f]{6,}");

  private RestoreThread() {}

  /** Returns whether a thread is a restore thread. */
  static boolean is(ProcStat thread) {
    return NAME.matcher(thread.name()).matches();
  }

  /**
   * Finds the restore thread of a process.
   *
   * @return its id
   * @throws UntraceableException if the process has no such thread, or several threads with such a
   *     name
   */
  public static int of(ProcessIdentity process) throws UntraceableException {
    List<ProcStat> found = ProcFs.eachTask(process.pid()).filter(RestoreThread::is).toList();
    if (found.size() != 1) {
      throw new UntraceableException(
          Reason.NO_THREAD,
          "process %s has %s threads with the name of the driver's restore thread"
              .formatted(process.pid(), found.size()));
    }
    return found.get(0).pid();
  }

  /**
   * Checks that a restore thread has the same seccomp filters as a borrowed thread, whose filters
   * are known.
   *
   * @throws UntraceableException if it has other filters
   */
  public static void requireFiltersOf(int thread, RemoteThread borrowed)
      throws UntraceableException {
    if (!filters(thread).equals(filters(borrowed.task()))) {
      throw new UntraceableException(
          Reason.SECCOMP,
          "the driver's restore thread %s has other seccomp filters than thread %s"
              .formatted(thread, borrowed.task()));
    }
  }

  private static List<String> filters(int thread) {
    Map<String, String> status = ProcFs.status(thread);
    return List.of(
        status.getOrDefault("Seccomp", "0"), status.getOrDefault("Seccomp_filters", "0"));
  }
}
