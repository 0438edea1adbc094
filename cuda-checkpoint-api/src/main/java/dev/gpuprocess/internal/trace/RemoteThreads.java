package dev.gpuprocess.internal.trace;

import dev.gpuprocess.internal.os.ErrnoException;
import dev.gpuprocess.internal.os.ProcessMemory;
import java.util.List;

/**
 * Threads of another process that make the system calls that were written down for them, one after
 * the other, and end. They run signal frames in memory of their own, with all signals blocked, and need
 * nobody: if this JVM is killed they go on to their end, and that memory stays mapped.
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
  private static final long ALL_SIGNALS = -1;
  private static final int READ_WRITE = 3;
  private static final int PRIVATE_ANONYMOUS = 0x22;
  private static final int PAGE = 4096;

  /**
   * CLONE_VM, FS, FILES, SIGHAND, THREAD and SYSVSEM, as for any thread; UNTRACED; CHILD_SETTID and
   * CHILD_CLEARTID, which tell whether it is there still.
   */
  private static final long FLAGS =
      0x100 | 0x200 | 0x400 | 0x800 | 0x10000 | 0x40000 | 0x800000 | 0x1000000 | 0x200000;

  private final long scratch;
  private final long bytes;
  private final int started;

  private RemoteThreads(long scratch, long bytes, int started) {
    this.scratch = scratch;
    this.bytes = bytes;
    this.started = started;
  }

  /**
   * Starts a thread for each list, or fewer where the process may not have so many more.
   *
   * @param thread of the process
   * @param work what each of them does
   * @throws RemoteCallException when not even one could be started
   */
  public static RemoteThreads start(BorrowedThread thread, List<List<Advice>> work)
      throws UntraceableException, RemoteCallException, ErrnoException {
    thread.require(SystemCall.EXIT, 0);
    int frames = work.stream().mapToInt(each -> each.size() + 1).sum();
    int numbers = work.size() * Long.BYTES + FRAME & -FRAME;
    long bytes = numbers + (long) frames * FRAME + PAGE - 1 & -PAGE;
    long scratch =
        thread.call(SystemCall.MMAP, 0, bytes, READ_WRITE, PRIVATE_ANONYMOUS, -1, 0);
    int started = 0;
    try {
      long at = scratch + numbers;
      for (List<Advice> each : work) {
        long number = scratch + (long) started * Long.BYTES;
        thread.memory().write(number, new byte[] {-1, -1, -1, -1});
        write(thread, at, each);
        thread.call(SystemCall.CLONE, FLAGS, at, 0, number, 0);
        started++;
        at += (each.size() + 1L) * FRAME;
      }
    } catch (RemoteCallException noMore) {
      if (started == 0) {
        thread.call(SystemCall.MUNMAP, scratch, bytes);
        throw noMore;
      }
    }
    return new RemoteThreads(scratch, bytes, started);
  }

  private static void write(BorrowedThread thread, long first, List<Advice> work)
      throws UntraceableException, ErrnoException {
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
    return started;
  }

  /**
   * Whether all of them have ended.
   *
   * @param memory of the process
   * @throws ErrnoException when the process is gone
   */
  public boolean haveEnded(ProcessMemory memory) throws ErrnoException {
    for (int i = 0; i < started; i++) {
      if ((int) memory.readLong(scratch + (long) i * Long.BYTES) != 0) {
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
      throws UntraceableException, RemoteCallException, ErrnoException {
    if (!haveEnded(thread.memory())) {
      throw new IllegalStateException("the threads of %s run".formatted(thread.pid()));
    }
    thread.call(SystemCall.MUNMAP, scratch, bytes);
  }
}
