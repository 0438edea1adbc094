package dev.gpuprocess.internal.remote;

import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.linux.Ptrace;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.internal.time.Durations;
import dev.gpuprocess.process.ProcessIdentity;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;

/**
 * All threads of a process, stopped. They go on when the work is done, and when this JVM is killed.
 * Exists while a {@link Work} is done, for use by the thread that does it.
 */
public final class StoppedThreads {

  /** What is done while they are held. */
  @FunctionalInterface
  public interface Work<T> {

    /**
     * Does it, on a thread of its own; it may wait for other threads of this JVM.
     *
     * @throws UntraceableException when no thread of the process can make a system call
     * @throws IOException when something else failed
     */
    T with(StoppedThreads threads) throws UntraceableException, IOException;
  }

  private final ProcessIdentity process;
  private final Ptrace ptrace;
  private final long end;
  private final Map<Integer, Tracee> held = new HashMap<>();

  private StoppedThreads(ProcessIdentity process, Ptrace ptrace, long end) {
    this.process = process;
    this.ptrace = ptrace;
    this.end = end;
  }

  /**
   * Stops all threads of a process, the CUDA driver's included, so that no driver call on it
   * answers meanwhile. The first thread of a process that this JVM has started runs on, see {@link
   * #firstThreadRuns}.
   *
   * @param process who
   * @param limit how long stopping them, and each system call, may take
   * @param work what is done meanwhile
   * @return what the work returns
   * @throws UntraceableException when they cannot be stopped; all go on then
   * @throws IOException what the work throws
   */
  public static <T> T hold(ProcessIdentity process, Duration limit, Work<T> work)
      throws UntraceableException, IOException {
    return hold(process, limit, work, Ptrace::new);
  }

  static <T> T hold(
      ProcessIdentity process, Duration limit, Work<T> work, Supplier<Ptrace> requests)
      throws UntraceableException, IOException {
    return TracerThread.run(
        process.pid(),
        requests,
        ptrace -> {
          Suitability.check(process);
          StoppedThreads threads = new StoppedThreads(process, ptrace, Durations.end(limit));
          try {
            threads.stop();
            return work.with(threads);
          } finally {
            threads.release();
          }
        });
  }

  /** A thread that runs may start others, so the list is read until it has nothing new. */
  private void stop() throws UntraceableException, NativeCallException {
    boolean ours = ThreadChoice.isOurChild(process.pid());
    List<Tracee> stopping;
    do {
      stopping = new ArrayList<>();
      for (ProcStat thread : ProcFs.tasks(process.pid())) {
        boolean leave = ours && thread.pid() == process.pid();
        if (!thread.isDead() && !leave && !held.containsKey(thread.pid())) {
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
      if (e.why().reason() == Untraceable.Reason.GONE) {
        return;
      }
      throw e;
    }
    thread.beginInterrupt();
    stopping.add(thread);
  }

  private void end(Tracee thread) throws UntraceableException, NativeCallException {
    try {
      thread.awaitTrap(end);
      SavedRegisters.settle(thread);
      held.put(thread.task(), thread);
    } catch (UntraceableException e) {
      if (e.why().reason() != Untraceable.Reason.GONE) {
        throw e;
      }
    } catch (NativeCallException e) {
      if (!e.isGone()) {
        throw e;
      }
    }
  }

  /**
   * Whether the first thread of the process was left running. The JDK waits for the end of what it
   * has started, and would take the stop for that.
   */
  public boolean firstThreadRuns() {
    return ProcFs.tasks(process.pid()).stream()
        .anyMatch(
            thread ->
                thread.pid() == process.pid()
                    && !thread.isDead()
                    && !held.containsKey(process.pid()));
  }

  /** How many are held. */
  public int count() {
    return held.size();
  }

  /**
   * Borrows one of them for some calls; it is held again afterwards.
   *
   * @param work makes the calls, on this thread
   * @return what the work returns
   * @throws UntraceableException when none can be borrowed
   * @throws IOException what the work throws
   */
  public <T> T borrow(RemoteThread.Work<T> work) throws UntraceableException, IOException {
    TraceTarget land = TraceTarget.of(process);
    UntraceableException why = Suitability.noThread(process);
    for (Tracee each : inOrder()) {
      RemoteThread borrowed;
      try {
        borrowed = RemoteThread.of(each, land, end);
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
        borrowed.goHome();
      }
    }
    throw why;
  }

  /** Those first whose calls have no timeout, which would begin anew if this JVM were killed. */
  private List<Tracee> inOrder() throws UntraceableException, NativeCallException {
    List<Tracee> first = new ArrayList<>();
    List<Tracee> last = new ArrayList<>();
    for (Tracee each : held.values()) {
      (SavedRegisters.hasTimeout(each.registers()) ? last : first).add(each);
    }
    first.addAll(last);
    return first;
  }

  /**
   * The process may be killed meanwhile. What is not let go here, the end of this thread lets go.
   */
  private void release() throws NativeCallException {
    for (Tracee each : held.values()) {
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
