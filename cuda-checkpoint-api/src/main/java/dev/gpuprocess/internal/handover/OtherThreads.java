package dev.gpuprocess.internal.handover;

import dev.gpuprocess.internal.os.ErrnoException;
import dev.gpuprocess.internal.os.Ptrace;
import dev.gpuprocess.internal.proc.ProcFs;
import java.io.IOException;
import java.util.LinkedHashSet;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.locks.LockSupport;

/**
 * All threads of a process but one, held so that they do not run. The kernel lets them go when this
 * thread ends. For one thread.
 */
final class OtherThreads implements AutoCloseable {

  private static final int STOPPED = 0x7f;
  private static final int EVENT_STOP = 128;
  private static final int SIGTRAP = 5;
  private static final long PAUSE_NANOS = 100_000;

  /** Longer than any thread takes that can be stopped at all. */
  private static final long PATIENCE_NANOS = 2_000_000_000;

  private final int pid;
  private final int spared;
  private final Ptrace ptrace = new Ptrace();
  private final Set<Integer> held = new LinkedHashSet<>();

  private OtherThreads(int pid, int spared) {
    this.pid = pid;
    this.spared = spared;
  }

  /**
   * Stops them.
   *
   * @param spared the thread that is stopped already
   * @throws IOException when one of them cannot be stopped; all run on then
   */
  static OtherThreads hold(int pid, int spared) throws IOException {
    OtherThreads threads = new OtherThreads(pid, spared);
    try {
      // A thread that is still running may start another one.
      while (threads.holdNew()) {
        Thread.onSpinWait();
      }
      return threads;
    } catch (IOException | RuntimeException e) {
      threads.close();
      throw e;
    }
  }

  private boolean holdNew() throws IOException {
    boolean found = false;
    for (int task : ProcFs.threads(pid)) {
      if (task != spared && !held.contains(task) && seize(task)) {
        found = true;
      }
    }
    return found;
  }

  private boolean seize(int task) throws IOException {
    try {
      ptrace.seize(task);
      held.add(task);
      ptrace.interrupt(task);
      awaitStop(task);
      return true;
    } catch (ErrnoException e) {
      held.remove(task);
      if (e.errno() == Ptrace.ESRCH || isDead(task)) {
        return false;
      }
      throw e;
    }
  }

  private static boolean isDead(int task) {
    return ProcFs.stat(task).map(stat -> "ZX".indexOf(stat.state()) >= 0).orElse(true);
  }

  private void awaitStop(int task) throws IOException {
    long begin = System.nanoTime();
    while (System.nanoTime() - begin < PATIENCE_NANOS) {
      Optional<Integer> status = ptrace.change(task);
      if (status.isEmpty()) {
        LockSupport.parkNanos(PAUSE_NANOS);
        continue;
      }
      if ((status.get() & 0xff) != STOPPED) {
        held.remove(task); // it has ended
        return;
      }
      int signal = status.get() >> 8 & 0xff;
      if (status.get() >> 16 == EVENT_STOP) {
        if (signal != SIGTRAP) {
          throw new IOException("process " + pid + " is stopped by a signal");
        }
        return;
      }
      // About to get a signal: it gets it, and stops before it does anything else.
      ptrace.resume(task, signal);
    }
    throw new IOException(
        "thread %s of process %s cannot be stopped: it waits in the kernel".formatted(task, pid));
  }

  /** Lets them run on. */
  @Override
  public void close() {
    for (int task : held) {
      try {
        ptrace.detach(task);
      } catch (ErrnoException ended) {
        continue;
      }
    }
    held.clear();
  }
}
