package dev.gpuprocess.internal.trace;

import dev.gpuprocess.internal.os.NativeCallException;
import dev.gpuprocess.internal.os.ProcessMemory;
import java.util.ArrayList;
import java.util.List;

/**
 * Threads of another process that make the system calls that were written down for them, one after
 * the other, and end. They run signal frames in memory of their own, with all signals blocked, and
 * need nobody: if this JVM is killed they go on to their end, and that memory stays mapped. Not for
 * use by several threads at a time.
 */
public final class RemoteThreads {

  /**
   * A call of {@code madvise}. What it answers is not known.
   *
   * @param address where it begins, a multiple of the page size
   * @param bytes how much
   * @param advice {@code MADV_...}
   */
  public record Advice(long address, long bytes, int advice) {}

  private static final int FRAME = 320;
  private static final int READ_WRITE = 3;
  private static final int PRIVATE_ANONYMOUS = 0x22;
  private static final int PAGE = 4096;

  /** The kernel puts the number of the thread there when it begins, and 0 when it has ended. */
  private static final byte[] NOT_YET = {-1, -1, -1, -1};

  /**
   * CLONE_VM, FS, FILES, SIGHAND, THREAD and SYSVSEM, as for any thread; UNTRACED; CHILD_SETTID and
   * CHILD_CLEARTID, which tell whether it is there still.
   */
  private static final long FLAGS =
      0x100 | 0x200 | 0x400 | 0x800 | 0x10000 | 0x40000 | 0x800000 | 0x1000000 | 0x200000;

  private final long scratch;
  private final long bytes;
  private final List<Long> numbers = new ArrayList<>();

  private RemoteThreads(long scratch, long bytes) {
    this.scratch = scratch;
    this.bytes = bytes;
  }

  /**
   * Maps what they will run on. To be done in time: where the process populates a mapping, another
   * one waits until that has ended, and starting threads does not.
   *
   * @param thread of the process
   * @param threads how many there will be at most
   * @param calls how many each of them makes at most
   */
  public static RemoteThreads prepare(BorrowedThread thread, int threads, int calls)
      throws UntraceableException, RemoteCallException, NativeCallException {
    long bytes = (long) threads * chain(calls) + PAGE - 1 & -PAGE;
    long scratch = thread.call(SystemCall.MMAP, 0, bytes, READ_WRITE, PRIVATE_ANONYMOUS, -1, 0);
    return new RemoteThreads(scratch, bytes);
  }

  /** A frame for each call, one for the end, and one in which is the thread's number. */
  private static long chain(int calls) {
    return (calls + 2L) * FRAME;
  }

  /**
   * Starts a thread for each list, or fewer where the process may not have so many more.
   *
   * @param thread of the process
   * @param work what each of them does
   * @return how many were started
   * @throws RemoteCallException when not even one could be started
   */
  public int start(BorrowedThread thread, List<List<Advice>> work)
      throws UntraceableException, RemoteCallException, NativeCallException {
    if (!numbers.isEmpty()) {
      throw new IllegalStateException("they were started");
    }
    thread.require(SystemCall.EXIT, 0);
    long end = scratch;
    for (List<Advice> each : work) {
      end += chain(each.size());
    }
    if (end > scratch + bytes) {
      throw new IllegalArgumentException("less was prepared for");
    }
    long at = scratch;
    for (List<Advice> each : work) {
      thread.memory().write(at, NOT_YET);
      write(thread, at + FRAME, each);
      try {
        thread.call(SystemCall.CLONE, FLAGS, at + FRAME, 0, at, 0);
      } catch (RemoteCallException noMore) {
        if (numbers.isEmpty()) {
          throw noMore;
        }
        return numbers.size();
      }
      numbers.add(at);
      at += chain(each.size());
    }
    return numbers.size();
  }

  private static void write(BorrowedThread thread, long first, List<Advice> work)
      throws UntraceableException, NativeCallException {
    long at = first;
    for (Advice advice : work) {
      long[] arguments = {advice.address(), advice.bytes(), advice.advice()};
      thread.require(SystemCall.MADVISE, arguments);
      thread.memory().write(at, thread.frame(at + FRAME, SystemCall.MADVISE, arguments));
      at += FRAME;
    }
    thread.memory().write(at, thread.frame(at, SystemCall.EXIT, 0));
  }

  /** How many there are, or were. */
  public int started() {
    return numbers.size();
  }

  /**
   * Whether all of them have ended.
   *
   * @param memory of the process
   * @throws NativeCallException when the process is gone
   */
  public boolean haveEnded(ProcessMemory memory) throws NativeCallException {
    for (long number : numbers) {
      if ((int) memory.readLong(number) != 0) {
        return false;
      }
    }
    return true;
  }

  /**
   * Unmaps what they ran on.
   *
   * @param thread of the process
   * @throws IllegalStateException when one of them runs: it would take the process with it
   */
  public void unmap(BorrowedThread thread)
      throws UntraceableException, RemoteCallException, NativeCallException {
    if (!haveEnded(thread.memory())) {
      throw new IllegalStateException("the threads of %s run".formatted(thread.pid()));
    }
    thread.call(SystemCall.MUNMAP, scratch, bytes);
  }
}
