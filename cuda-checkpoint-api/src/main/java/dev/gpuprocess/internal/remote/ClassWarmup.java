package dev.gpuprocess.internal.remote;

import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.linux.ProcessMemory;
import dev.gpuprocess.internal.proc.Mapping;
import dev.gpuprocess.internal.remote.Registers.Name;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * Loads the classes that are used while a thread is stopped, before the first thread is stopped:
 * loading and linking them takes tens of milliseconds.
 */
final class ClassWarmup {

  private static final int XSAVE = 832;
  private static final int ENABLED = 464;
  private static final int X87_SSE_AVX = 7;
  private static final int BELOW_TOP = 4096;

  private static volatile boolean done;

  private ClassWarmup() {}

  /**
   * Loads the classes, unless that was done before.
   *
   * @param thread seized and running, so that every request about it fails
   */
  static void of(Tracee thread, TraceTarget target) {
    if (done) {
      return;
    }
    ProcessMemory memory = new ProcessMemory(thread.task());
    ByteBuffer state = ByteBuffer.allocate(XSAVE).order(ByteOrder.LITTLE_ENDIAN);
    state.putLong(ENABLED, X87_SSE_AVX);
    attempt(thread::registers);
    attempt(thread::blockedSignals);
    attempt(thread::extendedState);
    attempt(thread::restartableSequences);
    attempt(thread::dispatchesSystemCalls);
    attempt(() -> SeccompFilters.of(thread));
    attempt(() -> target.gadgets().areIn(memory));
    attempt(() -> frames(memory, target, ExtendedState.inFrame(state.array())));
    done = true;
  }

  private interface Step {
    Object run() throws UntraceableException, NativeCallException;
  }

  private static void attempt(Step step) {
    try {
      step.run();
    } catch (UntraceableException | NativeCallException expected) {
      return; // the thread runs
    }
  }

  private static byte[] frames(ProcessMemory memory, TraceTarget target, byte[] state)
      throws NativeCallException {
    Registers registers = Registers.of(new byte[Registers.BYTES]);
    for (Mapping mapping : target.mappings()) {
      if (mapping.name().equals("[stack]")) {
        registers = registers.with(Name.RSP, mapping.end() - BELOW_TOP);
      }
    }
    new StackSpace(target.mappings(), memory).below(registers, ReturnFrames.bytes(state));
    memory.write(registers.get(Name.RSP), new byte[0]);
    return SignalFrame.of(
        0,
        new SavedRegisters(registers, registers, 0).registers().calling(0, 0, SystemCall.GETPID),
        0,
        0);
  }
}
