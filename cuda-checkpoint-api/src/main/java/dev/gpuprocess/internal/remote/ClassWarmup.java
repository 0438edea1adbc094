package dev.gpuprocess.internal.remote;

import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.linux.ProcessMemory;
import dev.gpuprocess.internal.proc.Mapping;
import dev.gpuprocess.internal.remote.Registers.Name;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * Does once what is done while a thread is stopped, before the first one is: loading and linking
 * the classes takes tens of milliseconds, and a thread should not stand still for that.
 */
final class ClassWarmup {

  private static final int XSAVE = 832;
  private static final int ENABLED = 464;
  private static final int X87_SSE_AVX = 7;
  private static final int ROOM = 4096;

  private static volatile boolean done;

  private ClassWarmup() {}

  /**
   * Rehearses, if that was not done yet.
   *
   * @param thread seized, and running: it answers no request
   * @param land its process
   */
  static void of(Tracee thread, TraceTarget land) {
    if (done) {
      return;
    }
    ProcessMemory memory = new ProcessMemory(thread.task());
    ByteBuffer state = ByteBuffer.allocate(XSAVE).order(ByteOrder.LITTLE_ENDIAN);
    state.putLong(ENABLED, X87_SSE_AVX);
    rehearse(thread::registers);
    rehearse(thread::blockedSignals);
    rehearse(thread::extendedState);
    rehearse(thread::restartableSequences);
    rehearse(thread::dispatchesSystemCalls);
    rehearse(() -> SeccompFilters.of(thread));
    rehearse(() -> land.gadgets().areIn(memory));
    rehearse(() -> frames(memory, land, ExtendedState.inFrame(state.array())));
    done = true;
  }

  private interface Step {
    Object rehearse() throws UntraceableException, NativeCallException;
  }

  private static void rehearse(Step step) {
    try {
      step.rehearse();
    } catch (UntraceableException | NativeCallException expected) {
      return; // the thread runs
    }
  }

  private static byte[] frames(ProcessMemory memory, TraceTarget land, byte[] state)
      throws NativeCallException {
    Registers registers = Registers.of(new byte[Registers.BYTES]);
    for (Mapping mapping : land.mappings()) {
      if (mapping.name().equals("[stack]")) {
        registers = registers.with(Name.RSP, mapping.end() - ROOM);
      }
    }
    new StackSpace(land.mappings(), memory).below(registers, ReturnFrames.bytes(state));
    memory.write(registers.get(Name.RSP), new byte[0]);
    return SignalFrame.of(
        0,
        new SavedRegisters(registers, registers, 0).registers().calling(0, 0, SystemCall.GETPID),
        0,
        0);
  }
}
