package dev.gpuprocess.internal.remote;

import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.linux.Ptrace;
import dev.gpuprocess.internal.remote.UntraceableException.Reason;
import dev.gpuprocess.internal.time.Deadline;
import dev.gpuprocess.internal.time.Polling;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.time.Duration;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.IntPredicate;
import java.util.function.Supplier;

/**
 * Makes system calls in another process, on one of its threads. Its code is not changed. The
 * process continues unchanged, also if this JVM is killed at any moment. Safe for use by several
 * threads; the kernel lets one tracer at a time trace a thread.
 */
public final class RemoteCalls {

  /** How long a thread may take to stop before another thread is tried. */
  private static final Duration PATIENCE = Duration.ofMillis(250);

  /** How long the threads are listed again: threads start and end, and wait for each other. */
  private static final Duration SEARCH = Duration.ofMillis(200);

  /** Reasons that may no longer hold a moment later. */
  private static final Set<Reason> PASSING = EnumSet.of(Reason.NO_THREAD, Reason.NO_INSTRUCTIONS);

  private final ProcessIdentity process;
  private final Ptrace ptrace;
  private final IntPredicate mayStop;
  private final Deadline deadline;

  /** Threads that were interrupted and have not stopped yet. */
  private final Map<Integer, Tracee> stopping = new HashMap<>();

  private UntraceableException why;

  private RemoteCalls(
      ProcessIdentity process, Ptrace ptrace, IntPredicate mayStop, Deadline deadline) {
    this.process = process;
    this.ptrace = ptrace;
    this.mayStop = mayStop;
    this.deadline = deadline;
    this.why = Suitability.noThread(process);
  }

  /** Returns whether system calls are made in other processes on machines of this kind. */
  public static boolean areMadeHere() {
    return Suitability.isMachineKnown();
  }

  /**
   * Borrows a thread for some calls. The thread is stopped until the work is done, other threads
   * are not.
   *
   * @param limit the time for all of it
   * @param work makes the calls
   * @return the result of the work
   * @throws UntraceableException if no thread can be borrowed, or the thread was lost
   * @throws IOException if the work throws it
   */
  public static <T> T borrow(
      ProcessIdentity process, Duration limit, RemoteWork<RemoteThread, T> work)
      throws UntraceableException, IOException {
    return borrow(process, limit, task -> true, work);
  }

  /**
   * Borrows one of some threads. No other thread is interrupted.
   *
   * @param mayStop whether a thread may be borrowed, by its id in our pid namespace
   */
  public static <T> T borrow(
      ProcessIdentity process,
      Duration limit,
      IntPredicate mayStop,
      RemoteWork<RemoteThread, T> work)
      throws UntraceableException, IOException {
    return borrow(process, limit, mayStop, work, Ptrace::new);
  }

  static <T> T borrow(
      ProcessIdentity process,
      Duration limit,
      IntPredicate mayStop,
      RemoteWork<RemoteThread, T> work,
      Supplier<Ptrace> requests)
      throws UntraceableException, IOException {
    Deadline deadline = Deadline.after(limit);
    return TracerThread.run(
        process.pid(),
        deadline,
        requests,
        ptrace -> new RemoteCalls(process, ptrace, mayStop, deadline).run(work));
  }

  private <T> T run(RemoteWork<RemoteThread, T> work) throws UntraceableException, IOException {
    Suitability.check(process);
    try (RemoteThread borrowed = find()) {
      return work.with(borrowed);
    }
  }

  private RemoteThread find() throws UntraceableException {
    try (Polling polling = new Polling(SEARCH)) {
      while (true) {
        TraceTarget target = TraceTarget.of(process);
        Iterator<Integer> threads = new ThreadChoice(process.pid(), mayStop);
        while (threads.hasNext()) {
          Optional<RemoteThread> found = take(threads.next(), target);
          if (found.isPresent()) {
            return found.get();
          }
        }
        Suitability.check(process);
        if (!mayFind(polling)) {
          throw why;
        }
      }
    }
  }

  private boolean mayFind(Polling polling) {
    return !deadline.passed()
        && (why.reason() == Reason.TIME || (PASSING.contains(why.reason()) && polling.pause()));
  }

  private Optional<RemoteThread> take(int task, TraceTarget target) {
    try {
      return Optional.of(stopped(task, target));
    } catch (UntraceableException e) {
      if (e.reason() != Reason.GONE) {
        why = e;
      }
    } catch (NativeCallException e) {
      if (!e.isGone()) {
        why = Suitability.unfit(task, e);
      }
    }
    return Optional.empty();
  }

  private RemoteThread stopped(int task, TraceTarget target)
      throws UntraceableException, NativeCallException {
    Tracee thread = stopping.get(task);
    if (thread == null) {
      thread = Tracee.seize(ptrace, process, task);
      ClassWarmup.of(thread, target);
      thread.beginInterrupt();
      stopping.put(task, thread);
    }
    Tracee.Stop stop = thread.awaitTrap(deadline.orAfter(PATIENCE));
    stopping.remove(task);
    try {
      if (stop == Tracee.Stop.GROUP) {
        throw Suitability.stopped(process);
      }
      return RemoteThread.of(thread, target, deadline);
    } catch (UntraceableException | NativeCallException e) {
      thread.detach();
      throw e;
    }
  }
}
