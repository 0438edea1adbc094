package dev.gpuprocess.internal.remote;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * A seccomp filter: a program in classic BPF over {@code struct seccomp_data}. Immutable.
 *
 * <p>All jumps are forward, so the program ends. An unknown instruction forbids the call.
 */
final class FilterProgram {

  private static final int INSTRUCTION = 8;
  private static final int X86_64 = 0xc000003e;
  private static final int DATA = 64;
  private static final int ARGUMENTS = 16;
  private static final int SCRATCH = 16;
  private static final int FORBIDDEN = 0x80000000; // SECCOMP_RET_KILL_PROCESS

  private static final int CLASS = 7;
  private static final int LD = 0;
  private static final int LDX = 1;
  private static final int ST = 2;
  private static final int STX = 3;
  private static final int ALU = 4;
  private static final int JMP = 5;
  private static final int RET = 6;
  private static final int MISC = 7;

  /** With the size, which is 0: words only. */
  private static final int MODE = 0xf8;

  private static final int IMM = 0x00;
  private static final int ABS = 0x20;
  private static final int MEM = 0x60;
  private static final int LEN = 0x80;

  private static final int BY_X = 8;
  private static final int OPERATION = 0xf0;
  private static final int RETURN_A = 0x10;
  private static final int TAX = 0x07;
  private static final int TXA = 0x87;

  private final ByteBuffer program;

  private FilterProgram(ByteBuffer program) {
    this.program = program;
  }

  /** Parses a program as the kernel returns it. */
  static FilterProgram of(byte[] program) {
    return new FilterProgram(
        ByteBuffer.wrap(program.clone()).order(ByteOrder.LITTLE_ENDIAN).asReadOnlyBuffer());
  }

  private static ByteBuffer data(int number, long place, long... arguments) {
    ByteBuffer data = ByteBuffer.allocate(DATA).order(ByteOrder.LITTLE_ENDIAN);
    data.putInt(0, number).putInt(4, X86_64).putLong(8, place);
    for (int i = 0; i < arguments.length; i++) {
      data.putLong(ARGUMENTS + i * Long.BYTES, arguments[i]);
    }
    return data;
  }

  /**
   * Runs the program on a system call.
   *
   * @return {@code SECCOMP_RET_...}
   */
  int run(int number, long place, long... arguments) {
    return new Run(data(number, place, arguments)).result();
  }

  private final class Run {

    private final ByteBuffer code = program.duplicate().order(ByteOrder.LITTLE_ENDIAN);
    private final ByteBuffer data;
    private final int[] memory = new int[SCRATCH];
    private int a;
    private int x;
    private int next;

    private Run(ByteBuffer data) {
      this.data = data;
    }

    int result() {
      try {
        while (true) {
          int at = next++ * INSTRUCTION;
          int operation = code.getShort(at) & 0xffff;
          int k = code.getInt(at + 4);
          if ((operation & CLASS) == RET) {
            return (operation & 0x18) == RETURN_A ? a : k;
          }
          execute(operation, code.get(at + 2) & 0xff, code.get(at + 3) & 0xff, k);
        }
      } catch (IndexOutOfBoundsException | ArithmeticException | UnknownInstruction e) {
        return FORBIDDEN;
      }
    }

    private void execute(int operation, int then, int otherwise, int k) throws UnknownInstruction {
      switch (operation & CLASS) {
        case LD -> a = load(operation, k);
        case LDX -> x = load(operation, k);
        case ST -> memory[k] = a;
        case STX -> memory[k] = x;
        case ALU -> a = compute(operation & OPERATION, (operation & BY_X) != 0 ? x : k);
        case JMP -> jump(operation, then, otherwise, k);
        case MISC -> {
          if (operation == TXA) {
            a = x;
          } else if (operation == TAX) {
            x = a;
          } else {
            throw new UnknownInstruction();
          }
        }
        default -> throw new UnknownInstruction();
      }
    }

    private int load(int operation, int k) throws UnknownInstruction {
      return switch (operation & MODE) {
        case IMM -> k;
        case ABS -> data.getInt(k);
        case MEM -> memory[k];
        case LEN -> DATA;
        default -> throw new UnknownInstruction();
      };
    }

    private int compute(int operation, int value) throws UnknownInstruction {
      return switch (operation) {
        case 0x00 -> a + value;
        case 0x10 -> a - value;
        case 0x20 -> a * value;
        case 0x30 -> Integer.divideUnsigned(a, value);
        case 0x40 -> a | value;
        case 0x50 -> a & value;
        case 0x60 -> Integer.compareUnsigned(value, 32) < 0 ? a << value : 0;
        case 0x70 -> Integer.compareUnsigned(value, 32) < 0 ? a >>> value : 0;
        case 0x80 -> -a;
        case 0x90 -> Integer.remainderUnsigned(a, value);
        case 0xa0 -> a ^ value;
        default -> throw new UnknownInstruction();
      };
    }

    private void jump(int operation, int then, int otherwise, int k) throws UnknownInstruction {
      int value = (operation & BY_X) != 0 ? x : k;
      boolean so =
          switch (operation & OPERATION) {
            case 0x00 -> {
              next = Math.addExact(next, k);
              yield false;
            }
            case 0x10 -> a == value;
            case 0x20 -> Integer.compareUnsigned(a, value) > 0;
            case 0x30 -> Integer.compareUnsigned(a, value) >= 0;
            case 0x40 -> (a & value) != 0;
            default -> throw new UnknownInstruction();
          };
      if ((operation & OPERATION) != 0) {
        next += so ? then : otherwise;
      }
    }
  }

  private static final class UnknownInstruction extends Exception {
    private static final long serialVersionUID = 1;
  }
}
