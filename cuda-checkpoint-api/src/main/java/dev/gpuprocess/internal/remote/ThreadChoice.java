package dev.gpuprocess.internal.remote;

import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.internal.proc.Unreadable;
import java.util.Comparator;
import java.util.Iterator;
import java.util.NoSuchElementException;
import java.util.PriorityQueue;
import java.util.Queue;
import java.util.function.IntPredicate;

/**
 * The threads of a process, ordered by how well they can be borrowed. Reads no more threads than it
 * must: a process may have hundreds. Threads that wait without a timeout come first: if this JVM is
 * killed, the thread makes its call again, and a timeout would start again. The first thread comes
 * last, and is not borrowed if the JDK waits for the process ({@link ChildWait}). The thread by
 * which the CUDA driver serves checkpoint calls is never borrowed, nor a thread that waits
 * uninterruptibly.
 */
final class ThreadChoice implements Iterator<Integer> {

  private static final int MOST = 64;

  private static final int BEST = 0;
  private static final int GOOD = 1;
  private static final int FAIR = 2;
  private static final int TIMED = 3;
  private static final int RESTARTED = 4;
  private static final int FIRST_THREAD = 8;

  private final int pid;
  private final Iterator<ProcStat> unread;
  private final Queue<Ranked> read = new PriorityQueue<>(Comparator.comparingInt(Ranked::rank));

  /** The rank is read once per thread, since a rank that changes while sorting has no order. */
  private record Ranked(int thread, int rank) {}

  /**
   * Creates a choice.
   *
   * @param mayStop whether a thread may be borrowed
   */
  ThreadChoice(int pid, IntPredicate mayStop) {
    boolean isAwaited = ChildWait.isFor(pid);
    this.pid = pid;
    this.unread =
        ProcFs.eachTask(pid)
            .filter(
                thread -> thread.state() == 'S' || thread.state() == 'R' || thread.state() == 't')
            .filter(thread -> !RestoreThread.is(thread))
            .filter(thread -> mayStop.test(thread.pid()))
            .filter(thread -> !isAwaited || thread.pid() != pid)
            .limit(MOST)
            .iterator();
  }

  @Override
  public boolean hasNext() {
    Ranked best = read.peek();
    while ((best == null || best.rank() > BEST) && unread.hasNext()) {
      ProcStat thread = unread.next();
      read.add(new Ranked(thread.pid(), rank(pid, thread)));
      best = read.peek();
    }
    return best != null;
  }

  @Override
  public Integer next() {
    if (!hasNext()) {
      throw new NoSuchElementException();
    }
    return read.remove().thread();
  }

  private static int rank(int pid, ProcStat thread) {
    int rank = thread.state() == 'R' ? GOOD : rank(call(thread.pid()));
    return thread.pid() == pid ? rank + FIRST_THREAD : rank;
  }

  private static String call(int task) {
    // Where this is forbidden, seizing the thread fails with the reason.
    return Unreadable.as("", () -> ProcFs.read(task, "syscall").orElse(""));
  }

  /** {@code 202 0x7f.. 0x189 0x0 0x0 0x0 0xffffffff 0x7f.. 0x7f..}, or {@code running}. */
  static int rank(String call) {
    if (call.startsWith("running")) {
      return GOOD;
    }
    long[] words = CallText.words(call);
    return words.length < 7 ? TIMED : rank(words);
  }

  private static int rank(long[] call) {
    return switch ((int) call[0]) {
      case 0, 19, 45, 47, 43, 288 -> BEST; // read, readv, recvfrom, recvmsg, accept, accept4
      case 202 -> call[4] == 0 || (call[2] & 0x7f) == 9 ? BEST : TIMED; // futex; 9: absolute
      case 7 -> (int) call[3] < 0 ? BEST : TIMED; // poll
      case 271 -> call[3] == 0 ? BEST : FAIR; // ppoll, which counts its timeout down
      case 232, 281, 441, 128 -> TIMED; // epoll, sigwait: ends with EINTR if we are killed
      case 23, 270 -> call[5] == 0 ? BEST : FAIR; // select, pselect6
      case 230 -> (call[2] & 1) != 0 ? BEST : TIMED; // clock_nanosleep; 1: absolute
      case 61, 247 -> BEST; // wait4, waitid
      case 35 -> TIMED; // nanosleep
      case 219 -> RESTARTED; // restart_syscall, which hides the call
      case 16 -> TIMED; // ioctl, perhaps of a driver
      default -> FAIR;
    };
  }
}
