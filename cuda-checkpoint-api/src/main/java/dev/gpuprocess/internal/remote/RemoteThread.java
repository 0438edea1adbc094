package dev.gpuprocess.internal.remote;

import dev.gpuprocess.internal.linux.Libc;
import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.linux.ProcessMemory;
import dev.gpuprocess.internal.remote.Registers.Name;
import dev.gpuprocess.internal.remote.UntraceableException.Reason;
import dev.gpuprocess.internal.time.Deadline;
import java.time.Duration;
import java.util.List;
import java.util.OptionalLong;

/**
 * A thread of another process, borrowed to make system calls on our behalf. The thread is stopped
 * between the calls, and all its signals are blocked; the calls must not wait. Valid during a
 * {@link RemoteWork}, on the thread that does the work.
 */
public final class RemoteThread implements AutoCloseable {

  private static final long ALL_SIGNALS = -1;
  private static final int MOST_RESTARTS = 100;
  private static final Duration PATIENCE = Duration.ofSeconds(10);

  private static final int PRIVATE_ANONYMOUS = 0x22;

  private final TraceTarget target;
  private final Tracee thread;
  private final ProcessMemory memory;
  private final SeccompFilters filters;
  private final SavedRegisters own;
  private final ReturnFrames frames;
  private final Deadline deadline;
  private boolean restored = true;
  private boolean lost;

  private RemoteThread(
      TraceTarget target,
      Tracee thread,
      ProcessMemory memory,
      SeccompFilters filters,
      SavedRegisters own,
      ReturnFrames frames,
      Deadline deadline) {
    this.target = target;
    this.thread = thread;
    this.memory = memory;
    this.filters = filters;
    this.own = own;
    this.frames = frames;
    this.deadline = deadline;
  }

  /**
   * Borrows a thread that is stopped where the kernel checks for signals.
   *
   * @param deadline the deadline of all calls
   */
  static RemoteThread of(Tracee thread, TraceTarget target, Deadline deadline)
      throws UntraceableException, NativeCallException {
    if (thread.dispatchesSystemCalls()) {
      throw new UntraceableException(
          Reason.DISPATCHED,
          "thread %s has its system calls dispatched to a signal handler".formatted(thread.task()));
    }
    Gadgets gadgets = target.gadgets();
    SeccompFilters filters = SeccompFilters.of(thread);
    ProcessMemory memory = new ProcessMemory(thread.task());
    filters.require(SystemCall.RT_SIGRETURN, gadgets.restorer().end());
    SavedRegisters own = SavedRegisters.of(thread, memory);
    byte[] state = ExtendedState.inFrame(thread.extendedState());
    OptionalLong space =
        new StackSpace(target.mappings(), memory).below(own.registers(), ReturnFrames.bytes(state));
    if (space.isEmpty()) {
      throw new UntraceableException(
          Reason.NO_THREAD,
          "thread %s has no space on its stack for a signal frame".formatted(thread.task()));
    }
    if (!gadgets.areIn(memory)) {
      throw new UntraceableException(
          Reason.NO_INSTRUCTIONS,
          "process %s changed its mappings just now".formatted(target.process().pid()));
    }
    ReturnFrames frames = new ReturnFrames(memory, gadgets, own, state, space.getAsLong());
    return new RemoteThread(target, thread, memory, filters, own, frames, deadline);
  }

  /** Returns the thread's id. */
  public int task() {
    return thread.task();
  }

  /** Returns the pid of the thread's process. */
  public int pid() {
    return target.process().pid();
  }

  /** Returns the memory of the thread's process. */
  public ProcessMemory memory() {
    return memory;
  }

  /**
   * Makes a system call, which must not wait.
   *
   * @return the result, which is not an error
   * @throws RemoteCallException if the call returns an error
   * @throws UntraceableException before the call if seccomp may forbid it; if the thread has ended;
   *     at the deadline
   */
  public long call(SystemCall call, long... arguments)
      throws RemoteCallException, UntraceableException, NativeCallException {
    require(call, arguments);
    return made(call, arguments);
  }

  /**
   * Checks that the work may still hand something over: work that was abandoned continues when the
   * page of the process that held it arrives.
   *
   * @throws UntraceableException at the deadline
   */
  void requireTime() throws UntraceableException {
    if (deadline.passed()) {
      throw new UntraceableException(
          Reason.TIME, "the calls in thread %s took too long".formatted(thread.task()));
    }
  }

  private long made(SystemCall call, long... arguments)
      throws RemoteCallException, UntraceableException, NativeCallException {
    long result = once(call, arguments);
    for (int i = 0; SavedRegisters.isRestarted(result) && i < MOST_RESTARTS; i++) {
      result = once(call, arguments);
    }
    if (SystemCall.isError(result)) {
      throw new RemoteCallException(thread.task(), call, (int) -result);
    }
    return result;
  }

  private long once(SystemCall call, long... arguments)
      throws UntraceableException, NativeCallException {
    return at(target.gadgets().call(), deadline, call, arguments);
  }

  /**
   * Has the thread change words of its process.
   *
   * @param routine the address of a {@link StoreRoutine} in the process
   * @param words in writable memory
   * @throws UntraceableException if the thread was lost, or the memory is not writable
   */
  public void store(long routine, List<StoreRoutine.Word> words)
      throws UntraceableException, NativeCallException {
    filters.require(SystemCall.GETPID, StoreRoutine.behindCall(routine));
    for (int from = 0; from < words.size(); from += StoreRoutine.MOST) {
      int to = Math.min(words.size(), from + StoreRoutine.MOST);
      byte[] list = StoreRoutine.list(words.subList(from, to));
      long address = frames.write(list);
      at(routine, deadline, SystemCall.GETPID, 0, 0, 0, 0, address, address + list.length);
    }
  }

  private long at(long instruction, Deadline until, SystemCall call, long... arguments)
      throws UntraceableException, NativeCallException {
    // From here on the thread returns to its own state without us.
    thread.setRegisters(own.registers().calling(instruction, frames.head(), call, arguments));
    if (restored) {
      restored = false;
      thread.blockSignals(ALL_SIGNALS);
    }
    lost = true; // unless it stops again
    boolean entered = thread.toSystemCall(until);
    boolean made = entered && thread.toSystemCall(until);
    lost = false;
    if (!made) {
      throw new UntraceableException(
          Reason.NO_INSTRUCTIONS,
          "thread %s could not execute a system call".formatted(thread.task()));
    }
    return thread.registers().get(Name.RAX);
  }

  /**
   * Registers a system call for the end of the work, before the calls that were registered earlier.
   * The thread makes it however the work ends, and also if this JVM is killed. At most 8.
   *
   * @return the address of the call's first argument, which another call may write
   */
  public long callAtExit(SystemCall call, long... arguments)
      throws UntraceableException, NativeCallException {
    require(call, arguments);
    frames.push(call, arguments);
    return frames.firstArgument();
  }

  /** Makes the exit call that was registered last now. */
  public void callNow() throws RemoteCallException, UntraceableException, NativeCallException {
    ReturnFrames.Call call = frames.take();
    made(call.call(), call.arguments());
  }

  /** Cancels the exit call that was registered last. To be called before that call is made here. */
  public void cancelExitCall() {
    frames.pop();
  }

  /**
   * Maps private readable and writable memory. An exit call unmaps it.
   *
   * @return its address
   */
  public long map(long bytes)
      throws RemoteCallException, UntraceableException, NativeCallException {
    long address = call(SystemCall.MMAP, 0, bytes, Libc.PROT_READ_WRITE, PRIVATE_ANONYMOUS, -1, 0);
    callAtExit(SystemCall.MUNMAP, address, bytes);
    return address;
  }

  /** Unmaps the memory that {@link #map} mapped last. */
  public void unmap(long address, long bytes)
      throws RemoteCallException, UntraceableException, NativeCallException {
    cancelExitCall();
    call(SystemCall.MUNMAP, address, bytes);
  }

  /**
   * Checks that seccomp allows a call. {@link #call} checks it too, but perhaps after calls that
   * are useless without this one.
   *
   * @throws UntraceableException if seccomp forbids the call, or may forbid it
   */
  public void require(SystemCall call, long... arguments) throws UntraceableException {
    filters.require(call, target.gadgets().behindCall(), arguments);
  }

  /**
   * Checks that seccomp allows a call to our own code in the process, on this thread or on one that
   * this thread starts.
   *
   * @param code the address of that code
   * @throws UntraceableException if seccomp forbids the call, or may forbid it
   */
  public void requireAt(long code, SystemCall call, long... arguments) throws UntraceableException {
    filters.require(call, code, arguments);
  }

  /**
   * Makes the exit calls and sets the thread's own registers; the thread stays stopped. A thread
   * that did not return from a call restores itself.
   */
  void restore() throws UntraceableException, NativeCallException {
    Deadline end = Deadline.after(PATIENCE); // that of the work may have passed
    while (!lost && frames.hasCalls()) {
      ReturnFrames.Call call = frames.take();
      at(target.gadgets().call(), end, call.call(), call.arguments());
    }
    if (restored || lost) {
      return;
    }
    thread.toTrap(end);
    // In this order: with its own registers and all signals blocked the thread would be lost.
    thread.blockSignals(own.mask());
    thread.setRegisters(own.registers());
    restored = true;
    frames.erase();
  }

  /** Restores the thread and lets it continue. */
  @Override
  public void close() throws UntraceableException, NativeCallException {
    restore();
    if (!lost) {
      thread.detach();
    }
  }
}
