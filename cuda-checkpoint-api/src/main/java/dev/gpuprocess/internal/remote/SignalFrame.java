package dev.gpuprocess.internal.remote;

import dev.gpuprocess.internal.remote.Registers.Name;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * What {@code rt_sigreturn} takes from the stack: all registers and the blocked signals ({@code
 * struct rt_sigframe}). Its first word is where a signal handler returns to, the restorer, so that
 * a {@code ret} with the stack pointer at the frame sets the thread off to what the frame says.
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
   * Where the first argument of a system call is, behind two registers that no system call takes:
   * the kernel can be told to write a number there.
   */
  static final int FIRST_ARGUMENT = REGISTERS + 8 * Long.BYTES;

  /** As far as the kernel reads. */
  static final int BYTES = MASK + Long.BYTES;

  /** {@code UC_FP_XSTATE | UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS}, as the kernel writes it. */
  private static final long FLAGS = 7;

  /** No such mode: the kernel refuses it, and leaves the alternate stack as it is. */
  private static final int NO_CHANGE = 7;

  private SignalFrame() {}

  /**
   * Makes one.
   *
   * @param restorer the address of {@code rt_sigreturn} as a system call
   * @param registers to be set
   * @param mask the signals to be blocked
   * @param floatingPoint the address of the extended state; 0 for a thread that has none to keep
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
