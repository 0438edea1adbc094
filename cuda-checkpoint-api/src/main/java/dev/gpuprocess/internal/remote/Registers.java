package dev.gpuprocess.internal.remote;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/** The general registers of a thread ({@code user_regs_struct} of ptrace). Immutable. */
final class Registers {

  /** A register with its offset in {@code user_regs_struct}. */
  enum Name {
    R15(0),
    R14(8),
    R13(16),
    R12(24),
    RBP(32),
    RBX(40),
    R11(48),
    R10(56),
    R9(64),
    R8(72),
    RAX(80),
    RCX(88),
    RDX(96),
    RSI(104),
    RDI(112),
    ORIG_RAX(120),
    RIP(128),
    CS(136),
    EFLAGS(144),
    RSP(152),
    SS(160),
    FS_BASE(168),
    GS_BASE(176),
    DS(184),
    ES(192),
    FS(200),
    GS(208);

    private final int place;

    Name(int place) {
      this.place = place;
    }
  }

  /** A thread that executes 32-bit code has fewer bytes. */
  static final int BYTES = Name.values().length * Long.BYTES;

  private static final Name[] ARGUMENTS = {
    Name.RDI, Name.RSI, Name.RDX, Name.R10, Name.R8, Name.R9
  };

  /** Interrupts on, direction up, no single steps. */
  private static final long PLAIN_FLAGS = 0x202;

  private final byte[] bytes;

  private Registers(byte[] bytes) {
    this.bytes = bytes;
  }

  static Registers of(byte[] bytes) {
    if (bytes.length != BYTES) {
      throw new IllegalArgumentException(bytes.length + " bytes are not registers of x86_64");
    }
    return new Registers(bytes.clone());
  }

  byte[] bytes() {
    return bytes.clone();
  }

  long get(Name name) {
    return view(bytes).getLong(name.place);
  }

  Registers with(Name name, long value) {
    byte[] copy = bytes.clone();
    view(copy).putLong(name.place, value);
    return new Registers(copy);
  }

  /**
   * Returns these registers, changed to make a system call.
   *
   * @param instruction the address of {@code syscall; ret}
   * @param stack the stack pointer that {@code ret} uses
   */
  Registers calling(long instruction, long stack, SystemCall call, long... arguments) {
    Registers all =
        with(Name.RIP, instruction)
            .with(Name.RSP, stack)
            .with(Name.RAX, call.number())
            .with(Name.ORIG_RAX, -1) // not in a call: nothing is restarted
            .with(Name.EFLAGS, PLAIN_FLAGS);
    for (int i = 0; i < ARGUMENTS.length; i++) {
      all = all.with(ARGUMENTS[i], i < arguments.length ? arguments[i] : 0);
    }
    return all;
  }

  private static ByteBuffer view(byte[] bytes) {
    return ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
  }
}
