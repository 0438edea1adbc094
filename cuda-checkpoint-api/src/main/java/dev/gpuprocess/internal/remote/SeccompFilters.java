package dev.gpuprocess.internal.remote;

import dev.gpuprocess.internal.linux.Libc;
import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.remote.UntraceableException.Reason;
import java.util.ArrayList;
import java.util.List;

/** The seccomp filters of a thread. */
final class SeccompFilters {

  private static final int MOST = 1024;

  private static final int ALLOW = 0x7fff0000;
  private static final int LOG = 0x7ffc0000;

  private final int task;
  private final List<FilterProgram> programs;

  private SeccompFilters(int task, List<FilterProgram> programs) {
    this.task = task;
    this.programs = programs;
  }

  /** Reads the filters of a stopped thread. */
  static SeccompFilters of(Tracee thread) throws UntraceableException {
    List<FilterProgram> programs = new ArrayList<>();
    try {
      while (programs.size() < MOST) {
        programs.add(FilterProgram.of(thread.seccompFilter(programs.size())));
      }
      throw unknown(thread.task(), "there are too many");
    } catch (NativeCallException e) {
      // If no filter was read, none is set, or the filters may not be read.
      if (thread.filtered() && (programs.isEmpty() || e.errno() != Libc.ENOENT)) {
        throw unknown(thread.task(), e.toString());
      }
    }
    return new SeccompFilters(thread.task(), programs);
  }

  private static UntraceableException unknown(int task, String why) {
    return new UntraceableException(
        Reason.SECCOMP,
        "thread %s has seccomp filters that cannot be read (%s): give this JVM CAP_SYS_ADMIN in the initial user namespace and no seccomp filters of its own"
            .formatted(task, why));
  }

  /**
   * Checks that every filter allows a call.
   *
   * @param place the address after the instruction
   */
  void require(SystemCall call, long place, long... arguments) throws UntraceableException {
    for (FilterProgram program : programs) {
      int answer = program.run(call.number(), place, arguments) & 0xffff0000;
      if (answer != ALLOW && answer != LOG) {
        throw new UntraceableException(
            Reason.SECCOMP,
            "seccomp forbids %s in thread %s (the filter returns %s)"
                .formatted(call, task, Integer.toHexString(answer)));
      }
    }
  }
}
