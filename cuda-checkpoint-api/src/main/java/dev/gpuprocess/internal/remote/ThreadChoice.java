package dev.gpuprocess.internal.remote;

import dev.gpuprocess.error.ProcessUnreadableException;
import dev.gpuprocess.internal.launch.LaunchedRoot;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.function.IntPredicate;

/**
 * Which thread of a process to borrow. First those that wait without a timeout: if this JVM is
 * killed, the call is made again, and a timeout would begin anew. Never the thread by which the
 * CUDA driver serves checkpoint calls, and none that waits uninterruptibly. The first thread comes
 * last, and is left alone when this JVM has started the process: the JDK waits for its end, and
 * takes a stop for that.
 */
final class ThreadChoice {

  private static final int MOST = 64;

  private static final int BEST = 0;
  private static final int GOOD = 1;
  private static final int FAIR = 2;
  private static final int TIMED = 3;
  private static final int RESTARTED = 4;
  private static final int FIRST_THREAD = 8;

  private ThreadChoice() {}

  /** Looked at once: the threads run on, and what changes while it is compared has no order. */
  private record Ranked(int thread, int rank) {}

  /**
   * Orders the threads of a process.
   *
   * @param mayStop whether a thread may be one of them
   * @return the best first; empty when there is none
   */
  static List<Integer> of(int pid, IntPredicate mayStop) {
    boolean ours = isOurChild(pid);
    return ProcFs.tasks(pid).stream()
        .filter(thread -> thread.state() == 'S' || thread.state() == 'R' || thread.state() == 't')
        .filter(thread -> !RestoreThread.is(thread))
        .filter(thread -> mayStop.test(thread.pid()))
        .filter(thread -> !ours || thread.pid() != pid)
        .limit(MOST)
        .map(thread -> new Ranked(thread.pid(), rank(pid, thread)))
        .sorted(Comparator.comparingInt(Ranked::rank))
        .map(Ranked::thread)
        .toList();
  }

  /**
   * Whether this JVM has started a process, or was given it. What was launched here is waited for
   * in a way that takes no stop for an end.
   */
  static boolean isOurChild(int pid) {
    return ProcFs.stat(pid)
        .filter(stat -> stat.parent() == ProcessHandle.current().pid())
        .filter(stat -> !LaunchedRoot.isRoot(stat.pid()))
        .isPresent();
  }

  private static int rank(int pid, ProcStat thread) {
    int rank = thread.state() == 'R' ? GOOD : rank(call(thread.pid()));
    return thread.pid() == pid ? rank + FIRST_THREAD : rank;
  }

  private static String call(int task) {
    try {
      return ProcFs.read(task, "syscall").orElse("");
    } catch (ProcessUnreadableException forbidden) {
      return ""; // seizing it will tell
    }
  }

  /** {@code 202 0x7f.. 0x189 0x0 0x0 0x0 0xffffffff 0x7f.. 0x7f..}, or {@code running}. */
  static int rank(String call) {
    if (call.startsWith("running")) {
      return GOOD;
    }
    long[] words = words(call);
    return words.length < 7 ? TIMED : rank(words);
  }

  private static long[] words(String call) {
    try {
      return Arrays.stream(call.strip().split(" "))
          .mapToLong(
              word ->
                  word.startsWith("0x")
                      ? Long.parseUnsignedLong(word.substring(2), 16)
                      : Long.parseLong(word))
          .toArray();
    } catch (NumberFormatException e) {
      return new long[0];
    }
  }

  private static int rank(long[] call) {
    return switch ((int) call[0]) {
      case 0, 19, 45, 47, 43, 288 -> BEST; // read, readv, recvfrom, recvmsg, accept, accept4
      case 202 -> call[4] == 0 || (call[2] & 0x7f) == 9 ? BEST : TIMED; // futex; 9: absolute
      case 7 -> (int) call[3] < 0 ? BEST : TIMED; // poll
      case 271 -> call[3] == 0 ? BEST : FAIR; // ppoll, which counts its timeout down
      case 232, 281, 441, 128 -> TIMED; // epoll, sigwait: ends with EINTR if we die at once
      case 23, 270 -> call[5] == 0 ? BEST : FAIR; // select, pselect6
      case 230 -> (call[2] & 1) != 0 ? BEST : TIMED; // clock_nanosleep; 1: absolute
      case 61, 247 -> BEST; // wait4, waitid
      case 35 -> TIMED; // nanosleep
      case 219 -> RESTARTED; // restart_syscall: its number is forgotten
      case 16 -> TIMED; // ioctl: of a driver, perhaps
      default -> FAIR;
    };
  }
}
