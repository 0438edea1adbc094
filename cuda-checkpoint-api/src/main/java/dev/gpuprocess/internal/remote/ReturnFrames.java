package dev.gpuprocess.internal.remote;

import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.linux.ProcessMemory;
import java.util.ArrayDeque;
import java.util.Deque;

/**
 * Signal frames on the stack of a borrowed thread, through which the thread returns to its own
 * state without its tracer. The stack pointer of a borrowed thread is at the first frame. A {@code
 * ret} then jumps to the restorer, which sets the registers of the frame. These make a system call
 * and point to the next frame. The last frame has the thread's own registers.
 */
final class ReturnFrames {

  private static final int FRAME = 320;
  private static final int MOST_CALLS = 8;

  /** Space for a list of words below the frames. */
  private static final int LIST = StoreRoutine.MOST * StoreRoutine.WORD_BYTES; // a multiple of 64

  private static final long ALL_SIGNALS = -1;

  private final ProcessMemory memory;
  private final Gadgets gadgets;
  private final Registers template;
  private final long low;
  private final byte[] overwritten;
  private final long last;
  private final Deque<Call> calls = new ArrayDeque<>();

  /** A system call that the thread makes before it returns to its own state. */
  static final class Call {
    private final SystemCall call;
    private final long[] arguments;

    private Call(SystemCall call, long... arguments) {
      this.call = call;
      this.arguments = arguments;
    }

    SystemCall call() {
      return call;
    }

    long[] arguments() {
      return arguments.clone();
    }
  }

  /** Returns how many bytes the frames need. */
  static int bytes(byte[] extendedState) {
    return LIST + (MOST_CALLS + 1) * FRAME + extendedState.length + ExtendedState.ALIGNMENT;
  }

  /**
   * Writes the frame with the thread's own registers.
   *
   * @param low the lowest address of the space for the frames, a multiple of 64
   */
  ReturnFrames(
      ProcessMemory memory, Gadgets gadgets, SavedRegisters own, byte[] extendedState, long low)
      throws NativeCallException {
    this.memory = memory;
    this.gadgets = gadgets;
    this.template = own.registers();
    this.low = low;
    overwritten = memory.read(low, bytes(extendedState));
    long state = low + LIST + (MOST_CALLS + 1) * FRAME; // multiples of 64
    last = state - FRAME;
    memory.write(state, extendedState);
    memory.write(last, SignalFrame.of(gadgets.restorer().start(), own.again(), own.mask(), state));
  }

  /** Returns where the stack pointer of the borrowed thread must be. */
  long head() {
    return last - (long) calls.size() * FRAME;
  }

  /**
   * Adds a call, which the thread makes before the calls added earlier.
   *
   * @throws IllegalStateException if there are too many calls
   */
  void push(SystemCall call, long... arguments) throws NativeCallException {
    if (calls.size() == MOST_CALLS) {
      throw new IllegalStateException("at most " + MOST_CALLS + " exit calls");
    }
    long at = head() - FRAME;
    Registers registers = template.calling(gadgets.call(), head(), call, arguments);
    memory.write(at, SignalFrame.of(gadgets.restorer().start(), registers, ALL_SIGNALS, 0));
    calls.push(new Call(call, arguments));
  }

  /**
   * Writes a list for a {@link StoreRoutine} below the frames.
   *
   * @return its address, until the next list
   */
  long write(byte[] list) throws NativeCallException {
    memory.write(low, list);
    return low;
  }

  boolean hasCalls() {
    return !calls.isEmpty();
  }

  /** Returns the address of the first argument of the call added last. */
  long firstArgument() {
    return head() + SignalFrame.FIRST_ARGUMENT;
  }

  /** Removes the call added last and returns it, with the first argument that is in the process. */
  Call take() throws NativeCallException {
    long written = memory.readLong(firstArgument());
    Call call = pop();
    long[] arguments = call.arguments();
    if (arguments.length > 0) {
      arguments[0] = written;
    }
    return new Call(call.call(), arguments);
  }

  /** Removes the call added last. */
  Call pop() {
    if (calls.isEmpty()) {
      throw new IllegalStateException("no exit call is registered");
    }
    return calls.pop();
  }

  /** Restores the bytes below the stack, after the thread has its own registers again. */
  void erase() throws NativeCallException {
    memory.write(low, overwritten);
  }
}
