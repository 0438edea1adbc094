package dev.gpuprocess.internal.trace;

import dev.gpuprocess.internal.os.ErrnoException;
import dev.gpuprocess.internal.os.Ptrace;
import dev.gpuprocess.internal.time.Durations;
import dev.gpuprocess.process.ProcessIdentity;
import java.io.IOException;
import java.time.Duration;
import java.util.List;

/**
 * Makes system calls in another process, by borrowing one of its threads. No byte of its code is
 * changed, and it goes on as it was, at whatever moment this JVM is killed. Safe for use by several
 * threads; the kernel lets one at a time trace a thread.
 */
public final class RemoteCalls {

  /** How long a thread may take to stop before another one is tried. */
  private static final long PATIENCE = 250_000_000;

  private RemoteCalls() {}

  /**
   * Borrows a thread for some calls. It is stopped until the work is done, other threads are not.
   *
   * @param process who
   * @param limit how long it may take in all
   * @param work makes the calls, on a thread of its own
   * @return what the work returns
   * @throws UntraceableException when there is no thread to borrow, or it was lost in the middle
   * @throws IOException what the work throws
   */
  public static <T> T borrow(
      ProcessIdentity process, Duration limit, BorrowedThread.Work<T> work)
      throws UntraceableException, IOException {
    long end = Durations.end(limit);
    Suitability.check(process);
    Landscape land = Landscape.of(process);
    return TracerThread.run(
        process.pid(), ptrace -> new Session<>(ptrace, land, work, end).run());
  }

  private record Session<T>(
      Ptrace ptrace, Landscape land, BorrowedThread.Work<T> work, long end) {

    /** Threads come and go: when all that were seen are gone, there are others. */
    T run() throws UntraceableException, IOException {
      while (true) {
        UntraceableException why = null;
        List<Integer> threads = ThreadChoice.of(land.process().pid());
        for (int task : threads) {
          Tracee thread = new Tracee(ptrace, task);
          BorrowedThread borrowed;
          try {
            borrowed = take(thread);
          } catch (UntraceableException e) {
            why = why == null || e.why().reason() != Untraceable.Reason.GONE ? e : why;
            continue;
          }
          try {
            return work.with(borrowed);
          } finally {
            borrowed.goHome();
            thread.detach();
          }
        }
        Suitability.check(land.process());
        if (why == null) {
          throw Suitability.noThread(land.process());
        }
        if (why.why().reason() != Untraceable.Reason.GONE || Durations.left(end) <= 0) {
          throw why;
        }
      }
    }

    private BorrowedThread take(Tracee thread) throws UntraceableException, ErrnoException {
      try {
        return seized(thread);
      } catch (ErrnoException e) {
        if (e.errno() == Ptrace.ESRCH) {
          throw thread.gone();
        }
        throw e;
      }
    }

    private BorrowedThread seized(Tracee thread) throws UntraceableException, ErrnoException {
      try {
        ptrace.seize(thread.task());
      } catch (ErrnoException e) {
        throw Suitability.refused(land.process(), thread.task(), e);
      }
      boolean filtered = Suitability.check(land.process(), thread.task());
      Tracee.Stop stop = thread.interrupt(Math.min(end, System.nanoTime() + PATIENCE));
      try {
        if (stop == Tracee.Stop.GROUP) {
          throw Suitability.stopped(land.process());
        }
        return BorrowedThread.of(thread, filtered, land, end);
      } catch (UntraceableException | ErrnoException e) {
        thread.detach();
        throw e;
      }
    }
  }
}
