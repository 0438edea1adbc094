package dev.gpuprocess.internal.remote;

import dev.gpuprocess.internal.remote.Registers.Name;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * A signal frame ({@code struct rt_sigframe}): all registers and the blocked signals, which {@code
 * rt_sigreturn} reads from the stack. Its first word is the address of the restorer. A {@code ret}
 * with the stack pointer at the frame therefore sets the registers of the frame.
 */
final class SignalFrame {

  /** The registers in the order of {@code struct sigcontext}. */
  private static final Name[] SAVED = {
    Name.R8, Name.R9, Name.R10, Name.R11, Name.R12, Name.R13, Name.R14, Name.R15, Name.RDI,
    Name.RSI, Name.RBP, Name.RBX, Name.RDX, Name.RAX, Name.RCX, Name.RSP, Name.RIP, Name.EFLAGS
  };

  private static final int CONTEXT = 8;
  private static final int ALTERNATE_STACK_FLAGS = CONTEXT + 24;
  private static final int REGISTERS = CONTEXT + 40;
  private static final int SELECTORS = REGISTERS + SAVED.length * Long.BYTES;
  private static final int FLOATING_POINT = REGISTERS + 184;
  private static final int MASK = CONTEXT + 296;

  /**
   * The offset of the first argument of a system call. The two registers before it are no
   * arguments, so the kernel may write a pair of numbers there.
   */
  static final int FIRST_ARGUMENT = REGISTERS + 8 * Long.BYTES;

  /** The bytes that the kernel reads. */
  static final int BYTES = MASK + Long.BYTES;

  /** {@code UC_FP_XSTATE | UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS}, as in the kernel's frames. */
  private static final long FLAGS = 7;

  /** An invalid mode, with which the kernel does not change the alternate stack. */
  private static final int NO_CHANGE = 7;

  private SignalFrame() {}

  /**
   * Returns a frame.
   *
   * @param restorer the address of code that calls {@code rt_sigreturn}
   * @param mask the signals to block
   * @param floatingPoint the address of the extended state, or 0 to leave it undefined
   */
  static byte[] of(long restorer, Registers registers, long mask, long floatingPoint) {
    ByteBuffer frame = ByteBuffer.allocate(BYTES).order(ByteOrder.LITTLE_ENDIAN);
    frame.putLong(0, restorer);
    frame.putLong(CONTEXT, FLAGS);
    frame.putInt(ALTERNATE_STACK_FLAGS, NO_CHANGE);
    for (int i = 0; i < SAVED.length; i++) {
      frame.putLong(REGISTERS + i * Long.BYTES, registers.get(SAVED[i]));
    }
    frame.putShort(SELECTORS, (short) registers.get(Name.CS));
    frame.putShort(SELECTORS + 6, (short) registers.get(Name.SS));
    frame.putLong(FLOATING_POINT, floatingPoint);
    frame.putLong(MASK, mask);
    return frame.array();
  }
}
