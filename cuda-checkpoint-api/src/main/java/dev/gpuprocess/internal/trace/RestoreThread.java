package dev.gpuprocess.internal.trace;

import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.process.ProcessIdentity;
import java.util.List;
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
}
