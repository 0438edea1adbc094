package dev.gpuprocess.internal.remote;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.gpuprocess.internal.remote.Registers.Name;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** The kernel's requirements for a signal frame, also on other processors than this one. */
@Tag("slow")
class SignalFramesTest {

  private static final int WITH_TILES = 11008;
  private static final int TILES = 8192;

  private static byte[] state(int bytes, long enabled, long used) {
    byte[] state = new byte[bytes];
    ByteBuffer.wrap(state).order(ByteOrder.LITTLE_ENDIAN).putLong(464, enabled).putLong(512, used);
    return state;
  }

  private static ByteBuffer inFrame(byte[] state) throws UntraceableException {
    return ByteBuffer.wrap(ExtendedState.inFrame(state)).order(ByteOrder.LITTLE_ENDIAN);
  }

  @ParameterizedTest
  @CsvSource({
    // AVX; AVX-512 with keys; AMX that the thread does not use; AMX that it uses
    "832, 7, 7, 832, 7, 7",
    "2696, 2e7, 7, 2696, 2e7, 207",
    "11008, 602e7, e7, 2816, 202e7, 2e7",
    "11008, 602e7, 602e7, 11008, 602e7, 602e7"
  })
  void theStateOfAFrameIsNoLargerThanTheThreads(
      int bytes, String enabled, String used, int size, String kept, String marked)
      throws Exception {
    ByteBuffer frame = inFrame(state(bytes, Long.parseLong(enabled, 16), Long.parseLong(used, 16)));

    assertEquals(size + 4, frame.capacity());
    assertEquals(0x46505853, frame.getInt(464));
    assertEquals(size + 4, frame.getInt(468));
    assertEquals(Long.parseLong(kept, 16), frame.getLong(472));
    assertEquals(size, frame.getInt(480));
    assertEquals(Long.parseLong(marked, 16), frame.getLong(512));
    assertEquals(0x46505845, frame.getInt(size));
  }

  @Test
  void registersThatAreNotKnownAreNotLost() {
    byte[] state = state(WITH_TILES + TILES, 1L << 20 | 7, 7);

    assertEquals(
        UntraceableException.Reason.REGISTERS,
        assertThrows(UntraceableException.class, () -> inFrame(state)).reason());
  }

  @Test
  void aFrameHasAllRegisters() {
    Registers registers = Registers.of(new byte[Registers.BYTES]);
    long value = 1000;
    for (Name name : Name.values()) {
      registers = registers.with(name, value++);
    }
    ByteBuffer frame =
        ByteBuffer.wrap(SignalFrame.of(42, registers, 43, 44)).order(ByteOrder.LITTLE_ENDIAN);

    // struct rt_sigframe of asm/sigframe.h, struct sigcontext_64 of asm/sigcontext.h
    assertEquals(42, frame.getLong(0));
    assertEquals(7, frame.getLong(8));
    assertEquals(registers.get(Name.R8), frame.getLong(48));
    assertEquals(registers.get(Name.RDI), frame.getLong(48 + 64));
    assertEquals(registers.get(Name.RSP), frame.getLong(48 + 120));
    assertEquals(registers.get(Name.RIP), frame.getLong(48 + 128));
    assertEquals(registers.get(Name.EFLAGS), frame.getLong(48 + 136));
    assertEquals(registers.get(Name.CS), frame.getShort(48 + 144));
    assertEquals(registers.get(Name.SS), frame.getShort(48 + 150));
    assertEquals(44, frame.getLong(48 + 184));
    assertEquals(43, frame.getLong(304));
    assertEquals(312, frame.capacity());
  }

  @ParameterizedTest
  @CsvSource({
    // ld [0]; jeq #9, 1, 0; ret ALLOW; ret KILL: mmap only is forbidden
    "2000000000000000 1500010009000000 060000000000ff7f 0600000000000080, 9, 80000000",
    "2000000000000000 1500010009000000 060000000000ff7f 0600000000000080, 28, 7fff0000",
    // ld [16]; and #0xf; tax; ld #3; jgt x, 0, 1; ret ALLOW; ret ERRNO: with an argument of 2
    "2000000010000000 540000000f000000 0700000000000000 0000000003000000 2d00000100000000 060000000000ff7f 0600000000000500, 9, 7fff0000",
    // st and ld M[3], division by zero, an unknown instruction, a jump out of the program
    "0000000007000000 0200000003000000 6000000003000000 1600000000000000, 9, 7",
    "0000000007000000 3400000000000000 060000000000ff7f, 9, 80000000",
    "ff00000000000000 060000000000ff7f, 9, 80000000",
    "0500000000001000 060000000000ff7f, 9, 80000000"
  })
  void filtersAreRunAsTheKernelRunsThem(String program, int number, String answer) {
    byte[] code = java.util.HexFormat.of().parseHex(program.replace(" ", ""));

    assertEquals(answer, Integer.toHexString(FilterProgram.of(code).run(number, 0x1234, 2, 0, 0)));
  }

  @ParameterizedTest
  @CsvSource({
    "202 0x7f 0x189 0x0 0x0 0x0 0xffffffffffffffff 0x7ffd 0x7f, 0",
    "202 0x7f 0x80 0x0 0x7f12 0x0 0x0 0x7ffd 0x7f, 3",
    "7 0x7f 0x1 0xffffffff 0x0 0x0 0x0 0x7ffd 0x7f, 0",
    "7 0x7f 0x1 0x64 0x0 0x0 0x0 0x7ffd 0x7f, 3",
    "230 0x1 0x1 0x7f 0x0 0x0 0x0 0x7ffd 0x7f, 0",
    "219 0x1 0x1 0x7f 0x0 0x0 0x0 0x7ffd 0x7f, 4",
    "running, 1",
    "-1 0x7ffd 0x7f, 3"
  })
  void threadsThatWaitForAnEventComeFirst(String call, int rank) {
    assertEquals(rank, ThreadChoice.rank(call));
  }
}
