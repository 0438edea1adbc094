package dev.gpuprocess.internal.remote;

import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.linux.ProcessMemory;
import dev.gpuprocess.internal.remote.Registers.Name;
import java.io.IOException;
import java.util.OptionalLong;

/**
 * A thread of another process that makes system calls for us. It is stopped all the while, with all
 * signals blocked; the calls must not wait for anything. Exists while a {@link Work} is done, for
 * use by the thread that does it.
 */
public final class RemoteThread {

  /** What is done with a borrowed thread. */
  @FunctionalInterface
  public interface Work<T> {

    /**
     * Makes calls. Runs on a thread of its own, and holds up a thread of the process.
     *
     * @throws UntraceableException when the thread was lost
     * @throws IOException when a call failed
     */
    T with(RemoteThread thread) throws UntraceableException, IOException;
  }

  private static final long ALL_SIGNALS = -1;
  private static final int MOST_RESTARTS = 100;
  private static final long PATIENCE = 2_000_000_000;

  private static final int READ_WRITE = 3;
  private static final int PRIVATE_ANONYMOUS = 0x22;

  /** The length of {@code mov %r9,(%r8)}. */
  private static final int STORE = 3;

  private final int pid;
  private final Tracee thread;
  private final ProcessMemory memory;
  private final Gadgets gadgets;
  private final SeccompFilters filters;
  private final SavedRegisters own;
  private final ReturnFrames way;
  private final long end;
  private boolean atHome = true;
  private boolean lost;

  private RemoteThread(
      int pid,
      Tracee thread,
      ProcessMemory memory,
      Gadgets gadgets,
      SeccompFilters filters,
      SavedRegisters own,
      ReturnFrames way,
      long end) {
    this.pid = pid;
    this.thread = thread;
    this.memory = memory;
    this.gadgets = gadgets;
    this.filters = filters;
    this.own = own;
    this.way = way;
    this.end = end;
  }

  /**
   * Borrows a thread that is stopped where the kernel looks for signals.
   *
   * @param end when it has to be back, by the clock of {@link System#nanoTime}
   */
  static RemoteThread of(Tracee thread, TraceTarget land, long end)
      throws UntraceableException, NativeCallException {
    if (thread.dispatchesSystemCalls()) {
      throw new UntraceableException(
          Untraceable.Reason.DISPATCHED,
          "thread %s has its system calls dispatched to a signal handler".formatted(thread.task()));
    }
    SeccompFilters filters = SeccompFilters.of(thread);
    ProcessMemory memory = new ProcessMemory(thread.task());
    filters.require(SystemCall.RT_SIGRETURN, land.gadgets().restorer().end());
    SavedRegisters own = SavedRegisters.of(thread, memory);
    byte[] state = ExtendedState.inFrame(thread.extendedState());
    OptionalLong room =
        new StackSpace(land.mappings(), memory).below(own.registers(), ReturnFrames.bytes(state));
    if (room.isEmpty()) {
      throw new UntraceableException(
          Untraceable.Reason.NO_THREAD,
          "thread %s is not on a stack of its own with room for a signal frame"
              .formatted(thread.task()));
    }
    if (!land.gadgets().areIn(memory)) {
      throw new UntraceableException(
          Untraceable.Reason.NO_INSTRUCTIONS,
          "process %s changed its mappings just now".formatted(land.process().pid()));
    }
    ReturnFrames way = new ReturnFrames(memory, land.gadgets(), own, state, room.getAsLong());
    return new RemoteThread(
        land.process().pid(), thread, memory, land.gadgets(), filters, own, way, end);
  }

  /** Its id. */
  public int task() {
    return thread.task();
  }

  /** Its process. */
  public int pid() {
    return pid;
  }

  /** The memory of its process. */
  public ProcessMemory memory() {
    return memory;
  }

  /**
   * Makes a system call, which must not wait for anything.
   *
   * @return its result, which is no error
   * @throws RemoteCallException when it answers an error
   * @throws UntraceableException when seccomp might forbid it, which is found before it is made;
   *     when the thread is gone; when the time is up
   */
  public long call(SystemCall call, long... arguments)
      throws RemoteCallException, UntraceableException, NativeCallException {
    require(call, arguments);
    return made(call, arguments);
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
    return at(gadgets.call(), call, arguments);
  }

  /**
   * Has the thread store a word, in one step that no other thread sees half done.
   *
   * @param routine the address of {@code mov %r9,(%r8); syscall; ret} in the process
   * @param address a multiple of 8, in writable memory
   * @param value the word
   * @throws UntraceableException when the thread was lost, or the memory is not writable
   */
  public void store(long routine, long address, long value)
      throws UntraceableException, NativeCallException {
    filters.require(SystemCall.GETPID, routine + STORE + Gadgets.SYSCALL);
    long unused = at(routine, SystemCall.GETPID, 0, 0, 0, 0, address, value);
  }

  private long at(long instruction, SystemCall call, long... arguments)
      throws UntraceableException, NativeCallException {
    // From here on it finds home by itself, whatever becomes of us.
    thread.setRegisters(own.registers().calling(instruction, way.head(), call, arguments));
    if (atHome) {
      atHome = false;
      thread.blockSignals(ALL_SIGNALS);
    }
    lost = true; // unless it stops again
    boolean entered = thread.toSystemCall(end);
    boolean made = entered && thread.toSystemCall(end);
    lost = false;
    if (!made) {
      throw new UntraceableException(
          Untraceable.Reason.NO_INSTRUCTIONS,
          "thread %s could not execute a system call".formatted(thread.task()));
    }
    return thread.registers().get(Name.RAX);
  }

  /**
   * Has a call made when the thread goes home, before those that were named earlier: at the end of
   * the work, however that ends, or by the thread itself if this JVM is killed. At most 8.
   *
   * @return where its first argument is, which another call may be told to write
   */
  public long onTheWayHome(SystemCall call, long... arguments)
      throws UntraceableException, NativeCallException {
    require(call, arguments);
    way.push(call, arguments);
    return way.firstArgument();
  }

  /** Makes the call that was named last now, instead of on the way home. */
  public void already() throws RemoteCallException, UntraceableException, NativeCallException {
    ReturnFrames.Call call = way.take();
    long unused = made(call.call(), call.array());
  }

  /** Takes back what was named last. To be called before the call is made otherwise. */
  public void notOnTheWayHome() {
    way.pop();
  }

  /**
   * Maps private memory that can be read and written, for what calls point to. It is unmapped on
   * the way home.
   *
   * @return its address
   */
  public long map(long bytes)
      throws RemoteCallException, UntraceableException, NativeCallException {
    long address = call(SystemCall.MMAP, 0, bytes, READ_WRITE, PRIVATE_ANONYMOUS, -1, 0);
    onTheWayHome(SystemCall.MUNMAP, address, bytes);
    return address;
  }

  /** Unmaps what {@link #map} has mapped last, before the end. */
  public void unmap(long address, long bytes)
      throws RemoteCallException, UntraceableException, NativeCallException {
    notOnTheWayHome();
    call(SystemCall.MUNMAP, address, bytes);
  }

  /**
   * Checks that seccomp allows a call, as far as it depends on the call. {@link #call} does so too,
   * when calls may have been made already that should not have been made without this one.
   *
   * @throws UntraceableException when it forbids it, or may
   */
  public void require(SystemCall call, long... arguments) throws UntraceableException {
    filters.require(call, gadgets.behindCall(), arguments);
  }

  /**
   * Checks the same of a call that code of ours in the process will make, in this thread or in one
   * that it starts.
   *
   * @param code where that code is
   * @throws UntraceableException when seccomp forbids it, or may
   */
  public void requireAt(long code, SystemCall call, long... arguments) throws UntraceableException {
    filters.require(call, code, arguments);
  }

  /**
   * A signal frame that makes a call, without the state of floating point.
   *
   * @param next the frame behind it
   */
  byte[] frame(long next, SystemCall call, long... arguments) {
    return SignalFrame.of(
        gadgets.restorer().start(),
        own.registers().calling(gadgets.call(), next, call, arguments),
        ALL_SIGNALS,
        0);
  }

  /**
   * Makes the calls that were named for that, and sets its own registers; it stays stopped. A
   * thread that did not come back from a call finds home by itself.
   */
  void goHome() throws UntraceableException, NativeCallException {
    while (!lost && way.hasCalls()) {
      ReturnFrames.Call call = way.take();
      long unused = once(call.call(), call.array());
    }
    if (atHome || lost) {
      return;
    }
    thread.toTrap(System.nanoTime() + PATIENCE);
    // In this order: with its own registers and all signals blocked it would be lost.
    thread.blockSignals(own.mask());
    thread.setRegisters(own.registers());
    atHome = true;
    way.cover();
  }

  /** Lets it go. */
  void giveBack() throws UntraceableException, NativeCallException {
    goHome();
    if (!lost) {
      thread.detach();
    }
  }
}
