package dev.gpuprocess.internal.remote;

import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.linux.Ptrace;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.internal.remote.UntraceableException.Reason;
import dev.gpuprocess.internal.time.Deadline;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;

/**
 * All threads of a process, stopped. They continue when the work is done, and if this JVM is
 * killed. Valid during a {@link RemoteWork}, on the thread that does the work.
 */
public final class StoppedThreads {

  private final ProcessIdentity process;
  private final Ptrace ptrace;
  private final Deadline deadline;
  private final Map<Integer, Tracee> stopped = new HashMap<>();

  private StoppedThreads(ProcessIdentity process, Ptrace ptrace, Deadline deadline) {
    this.process = process;
    this.ptrace = ptrace;
    this.deadline = deadline;
  }

  /**
   * Stops all threads of a process, the CUDA driver's included: no driver call on the process
   * returns during the work. The first thread of a process that the JDK waits for is not stopped,
   * see {@link #firstThreadRuns}.
   *
   * @param limit the time for stopping the threads, and for each system call
   * @param work may wait for other threads of this JVM
   * @return the result of the work
   * @throws UntraceableException if the threads cannot be stopped; all of them continue then
   * @throws IOException if the work throws it
   */
  public static <T> T during(
      ProcessIdentity process, Duration limit, RemoteWork<StoppedThreads, T> work)
      throws UntraceableException, IOException {
    return during(process, limit, work, Ptrace::new);
  }

  static <T> T during(
      ProcessIdentity process,
      Duration limit,
      RemoteWork<StoppedThreads, T> work,
      Supplier<Ptrace> requests)
      throws UntraceableException, IOException {
    return TracerThread.run(
        process.pid(),
        Deadline.never(), // the work may take long
        requests,
        ptrace -> {
          Suitability.check(process);
          StoppedThreads threads = new StoppedThreads(process, ptrace, Deadline.after(limit));
          try {
            threads.stop();
            return work.with(threads);
          } finally {
            threads.release();
          }
        });
  }

  /** A running thread may start others, so the threads are listed until none of them is new. */
  private void stop() throws UntraceableException, NativeCallException {
    boolean isAwaited = ChildWait.isFor(process.pid());
    List<Tracee> stopping;
    do {
      stopping = new ArrayList<>();
      for (ProcStat thread : ProcFs.tasks(process.pid())) {
        boolean skip = isAwaited && thread.pid() == process.pid();
        if (!thread.isDead() && !skip && !stopped.containsKey(thread.pid())) {
          begin(thread.pid(), stopping);
        }
      }
      for (Tracee thread : stopping) {
        end(thread);
      }
    } while (!stopping.isEmpty());
    Suitability.check(process);
  }

  private void begin(int task, List<Tracee> stopping)
      throws UntraceableException, NativeCallException {
    Tracee thread;
    try {
      thread = Tracee.seize(ptrace, process, task);
    } catch (UntraceableException e) {
      if (e.reason() == Reason.GONE) {
        return;
      }
      throw e;
    }
    thread.beginInterrupt();
    stopping.add(thread);
  }

  private void end(Tracee thread) throws UntraceableException, NativeCallException {
    try {
      thread.awaitTrap(deadline);
      SavedRegisters.settle(thread);
      stopped.put(thread.task(), thread);
    } catch (UntraceableException e) {
      if (e.reason() != Reason.GONE) {
        throw e;
      }
    } catch (NativeCallException e) {
      if (!e.isGone()) {
        throw e;
      }
    }
  }

  /**
   * Returns whether the first thread of the process was not stopped. The JDK waits for the
   * processes that it has started, and takes a stop for an exit.
   */
  public boolean firstThreadRuns() {
    return ProcFs.eachTask(process.pid())
        .anyMatch(
            thread ->
                thread.pid() == process.pid()
                    && !thread.isDead()
                    && !stopped.containsKey(process.pid()));
  }

  /** Returns how many threads are stopped. */
  int count() {
    return stopped.size();
  }

  /**
   * Borrows one of the threads for some calls; it is stopped again afterwards.
   *
   * @param work makes the calls, on this thread
   * @return the result of the work
   * @throws UntraceableException if no thread can be borrowed
   * @throws IOException if the work throws it
   */
  public <T> T borrow(RemoteWork<RemoteThread, T> work) throws UntraceableException, IOException {
    TraceTarget target = TraceTarget.of(process);
    UntraceableException why = Suitability.noThread(process);
    for (Tracee each : inOrder()) {
      RemoteThread borrowed;
      try {
        borrowed = RemoteThread.of(each, target, deadline);
      } catch (UntraceableException e) {
        why = e;
        continue;
      } catch (NativeCallException e) {
        why = Suitability.unfit(each.task(), e);
        continue;
      }
      try {
        return work.with(borrowed);
      } finally {
        borrowed.restore();
      }
    }
    throw why;
  }

  /** Puts the threads last whose timeout would begin again if this JVM were killed. */
  private List<Tracee> inOrder() throws UntraceableException, NativeCallException {
    List<Tracee> first = new ArrayList<>();
    List<Tracee> last = new ArrayList<>();
    for (Tracee each : stopped.values()) {
      (SavedRegisters.hasTimeout(each.registers()) ? last : first).add(each);
    }
    first.addAll(last);
    return first;
  }

  /** The process may have been killed. Threads that stay traced continue when our thread ends. */
  private void release() throws NativeCallException {
    for (Tracee each : stopped.values()) {
      try {
        each.detach();
      } catch (NativeCallException e) {
        if (!e.isGone()) {
          throw e;
        }
      }
    }
  }
}
