package dev.gpuprocess.internal.remote;

import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.linux.ProcessMemory;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.List;

/**
 * Signal frames on the stack of a borrowed thread. While the thread is borrowed its stack pointer
 * is at the first of them, so that it finds back by itself from wherever its tracer leaves it:
 * {@code ret} goes to the restorer, that sets the registers of the frame, which make a call and
 * point to the next frame; the last frame has the thread's own registers. What lay below the stack
 * is put back by a tracer that lives on.
 */
final class ReturnFrames {

  private static final int FRAME = 320;
  private static final int MOST_CALLS = 8;
  private static final long ALL_SIGNALS = -1;

  private final ProcessMemory memory;
  private final Gadgets gadgets;
  private final Registers template;
  private final long low;
  private final byte[] covered;
  private final long home;
  private final Deque<Call> calls = new ArrayDeque<>();

  /** A call that is made on the way. */
  record Call(SystemCall call, List<Long> arguments) {

    long[] array() {
      return arguments.stream().mapToLong(Long::longValue).toArray();
    }
  }

  /** How much room it needs. */
  static int bytes(byte[] extendedState) {
    return (MOST_CALLS + 1) * FRAME + extendedState.length + ExtendedState.ALIGNMENT;
  }

  /**
   * Writes the frame that leads home.
   *
   * @param low where there is room
   */
  ReturnFrames(
      ProcessMemory memory, Gadgets gadgets, SavedRegisters own, byte[] extendedState, long low)
      throws NativeCallException {
    this.memory = memory;
    this.gadgets = gadgets;
    this.template = own.registers();
    this.low = low;
    covered = memory.read(low, bytes(extendedState));
    long state = low + (MOST_CALLS + 1) * FRAME; // multiples of 64
    home = state - FRAME;
    memory.write(state, extendedState);
    memory.write(home, SignalFrame.of(gadgets.restorer().start(), own.again(), own.mask(), state));
  }

  /** Where the stack pointer has to be. */
  long head() {
    return home - (long) calls.size() * FRAME;
  }

  /**
   * Puts a call before what is on the way already.
   *
   * @throws IllegalStateException when there are too many
   */
  void push(SystemCall call, long... arguments) throws NativeCallException {
    if (calls.size() == MOST_CALLS) {
      throw new IllegalStateException("at most " + MOST_CALLS + " calls on the way home");
    }
    long at = head() - FRAME;
    Registers registers = template.calling(gadgets.call(), head(), call, arguments);
    memory.write(at, SignalFrame.of(gadgets.restorer().start(), registers, ALL_SIGNALS, 0));
    calls.push(new Call(call, Arrays.stream(arguments).boxed().toList()));
  }

  boolean hasCalls() {
    return !calls.isEmpty();
  }

  /** Where the first argument of the call that was pushed last is. */
  long firstArgument() {
    return head() + SignalFrame.FIRST_ARGUMENT;
  }

  /** Takes the call that was pushed last, as it is in the process. */
  Call take() throws NativeCallException {
    long written = memory.readLong(firstArgument());
    Call call = pop();
    List<Long> arguments = new ArrayList<>(call.arguments());
    if (!arguments.isEmpty()) {
      arguments.set(0, written);
    }
    return new Call(call.call(), arguments);
  }

  /** Forgets the call that was pushed last. */
  Call pop() {
    if (calls.isEmpty()) {
      throw new IllegalStateException("no call is on the way home");
    }
    return calls.pop();
  }

  /** Puts back what lay there, when the thread has its own registers again. */
  void cover() throws NativeCallException {
    memory.write(low, covered);
  }
}
