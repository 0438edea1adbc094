package dev.gpuprocess.internal.remote;

import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.process.ProcessIdentity;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;

/**
 * The thread by which the CUDA driver serves checkpoint calls in a process. It is known by its
 * name: to ask the driver for its id ({@code cuCheckpointProcessGetRestoreThreadId}) would be one
 * more call that can hang, and it is not documented in which pid namespace the id is.
 */
public final class RestoreThread {

  private static final Pattern NAME = Pattern.compile("cuda[0-9a-f]{6,}");

  private RestoreThread() {}

  /** Whether a thread is one. */
  static boolean is(ProcStat thread) {
    return NAME.matcher(thread.name()).matches();
  }

  /**
   * Finds it.
   *
   * @return its id
   * @throws UntraceableException when there is none, or more than one
   */
  public static int of(ProcessIdentity process) throws UntraceableException {
    List<ProcStat> found = ProcFs.tasks(process.pid()).stream().filter(RestoreThread::is).toList();
    if (found.size() != 1) {
      throw new UntraceableException(
          Untraceable.Reason.NO_THREAD,
          "process %s has %s threads with the name of the driver's restore thread"
              .formatted(process.pid(), found.size()));
    }
    return found.get(0).pid();
  }

  /**
   * Checks that seccomp allows it as much as it allows a borrowed thread, of which that is known.
   *
   * @param thread its id
   * @throws UntraceableException when it has other filters
   */
  public static void requireFiltersOf(int thread, RemoteThread borrowed)
      throws UntraceableException {
    if (!filters(thread).equals(filters(borrowed.task()))) {
      throw new UntraceableException(
          Untraceable.Reason.SECCOMP,
          "the driver's restore thread %s has other seccomp filters than thread %s"
              .formatted(thread, borrowed.task()));
    }
  }

  private static List<String> filters(int thread) {
    Map<String, String> status = ProcFs.status(thread);
    return List.of(
        status.getOrDefault("Seccomp", "0"), status.getOrDefault("Seccomp_filters", "0"));
  }

  /**
   * Tells its id in the pid namespace of its process, which {@code gettid} returns in it.
   *
   * @param thread its id here
   */
  public static int ownNumber(int thread) {
    String[] numbers =
        ProcFs.status(thread).getOrDefault("NSpid", Integer.toString(thread)).split("\\s+");
    return Integer.parseInt(numbers[numbers.length - 1]);
  }
}
