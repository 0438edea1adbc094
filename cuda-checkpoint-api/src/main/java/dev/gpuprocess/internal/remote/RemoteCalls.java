package dev.gpuprocess.internal.remote;

import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.linux.Ptrace;
import dev.gpuprocess.internal.time.Durations;
import dev.gpuprocess.internal.time.Polling;
import dev.gpuprocess.process.ProcessIdentity;
import java.io.IOException;
import java.time.Duration;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.IntPredicate;
import java.util.function.Supplier;

/**
 * Makes system calls in another process, by borrowing one of its threads. No byte of its code is
 * changed, and it goes on as it was, at whatever moment this JVM is killed. Safe for use by several
 * threads; the kernel lets one at a time trace a thread.
 */
public final class RemoteCalls {

  /** How long a thread may take to stop before another one is tried. */
  private static final long PATIENCE = 250_000_000;

  /** How long the threads are looked at again: they come and go, and wait for each other. */
  private static final Duration SEARCH = Duration.ofMillis(200);

  /** What may be otherwise a moment later. */
  private static final Set<Untraceable.Reason> PASSING =
      EnumSet.of(Untraceable.Reason.NO_THREAD, Untraceable.Reason.NO_INSTRUCTIONS);

  private final ProcessIdentity process;
  private final Ptrace ptrace;
  private final IntPredicate mayStop;
  private final long end;

  /** Those that were told to stop and have not yet. */
  private final Map<Integer, Tracee> stopping = new HashMap<>();

  private UntraceableException why;

  private RemoteCalls(ProcessIdentity process, Ptrace ptrace, IntPredicate mayStop, long end) {
    this.process = process;
    this.ptrace = ptrace;
    this.mayStop = mayStop;
    this.end = end;
    this.why = Suitability.noThread(process);
  }

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
  public static <T> T borrow(ProcessIdentity process, Duration limit, RemoteThread.Work<T> work)
      throws UntraceableException, IOException {
    return borrow(process, limit, task -> true, work);
  }

  /**
   * The same, by one of some threads. No other thread is asked to stop.
   *
   * @param mayStop whether a thread may be one, by its number here
   */
  public static <T> T borrow(
      ProcessIdentity process, Duration limit, IntPredicate mayStop, RemoteThread.Work<T> work)
      throws UntraceableException, IOException {
    return borrow(process, limit, mayStop, work, Ptrace::new);
  }

  static <T> T borrow(
      ProcessIdentity process,
      Duration limit,
      IntPredicate mayStop,
      RemoteThread.Work<T> work,
      Supplier<Ptrace> requests)
      throws UntraceableException, IOException {
    long end = Durations.end(limit);
    return TracerThread.run(
        process.pid(),
        requests,
        ptrace -> new RemoteCalls(process, ptrace, mayStop, end).run(work));
  }

  private <T> T run(RemoteThread.Work<T> work) throws UntraceableException, IOException {
    Suitability.check(process);
    RemoteThread borrowed = find();
    try {
      return work.with(borrowed);
    } finally {
      borrowed.giveBack();
    }
  }

  private RemoteThread find() throws UntraceableException {
    try (Polling polling = new Polling(SEARCH)) {
      while (true) {
        TraceTarget land = TraceTarget.of(process);
        for (int task : ThreadChoice.of(process.pid(), mayStop)) {
          Optional<RemoteThread> found = take(task, land);
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
    Untraceable.Reason reason = why.why().reason();
    return Durations.left(end) > 0
        && (reason == Untraceable.Reason.TIME || (PASSING.contains(reason) && polling.pause()));
  }

  private Optional<RemoteThread> take(int task, TraceTarget land) {
    try {
      return Optional.of(stopped(task, land));
    } catch (UntraceableException e) {
      if (e.why().reason() != Untraceable.Reason.GONE) {
        why = e;
      }
    } catch (NativeCallException e) {
      if (!e.isGone()) {
        why = Suitability.unfit(task, e);
      }
    }
    return Optional.empty();
  }

  private RemoteThread stopped(int task, TraceTarget land)
      throws UntraceableException, NativeCallException {
    Tracee thread = stopping.get(task);
    if (thread == null) {
      thread = Tracee.seize(ptrace, process, task);
      ClassWarmup.of(thread, land);
      thread.beginInterrupt();
      stopping.put(task, thread);
    }
    Tracee.Stop stop = thread.awaitTrap(Math.min(end, System.nanoTime() + PATIENCE));
    stopping.remove(task);
    try {
      if (stop == Tracee.Stop.GROUP) {
        throw Suitability.stopped(process);
      }
      return RemoteThread.of(thread, land, end);
    } catch (UntraceableException | NativeCallException e) {
      thread.detach();
      throw e;
    }
  }
}
