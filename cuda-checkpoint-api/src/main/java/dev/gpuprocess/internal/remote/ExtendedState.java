package dev.gpuprocess.internal.remote;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;

/**
 * The floating point and vector registers of a thread, as they lie in a signal frame. Ptrace gives
 * them in the same layout, without the marks by which the kernel recognises its own frames, and
 * with room for the tiles of AMX also where the thread does not use them: a frame of a thread that
 * never asked for tiles must be without.
 */
final class ExtendedState {

  /** They are where the processor wants them. */
  static final int ALIGNMENT = 64;

  private static final int SOFTWARE = 464;
  private static final int IN_USE = 512;
  private static final int LEAST = 576;
  private static final int MAGIC_1 = 0x46505853;
  private static final int MAGIC_2 = 0x46505845;

  private static final long PROTECTION_KEYS = 1L << 9;
  private static final long TILES = 1L << 18;
  private static final int TILE_BYTES = 8192;

  /**
   * x87, SSE, AVX, MPX, AVX-512, protection keys, AMX: tiles are last, and all others need less.
   */
  private static final long KNOWN = 0x602ff;

  private ExtendedState() {}

  /**
   * Makes the part of a signal frame.
   *
   * @param state what ptrace gave ({@code NT_X86_XSTATE})
   * @throws UntraceableException when this CPU has registers that are not known here
   */
  static byte[] inFrame(byte[] state) throws UntraceableException {
    ByteBuffer given = ByteBuffer.wrap(state).order(ByteOrder.LITTLE_ENDIAN);
    if (state.length < LEAST) {
      throw unknown("is not kept by XSAVE");
    }
    long enabled = given.getLong(SOFTWARE);
    long used = given.getLong(IN_USE);
    if ((enabled & ~KNOWN) != 0) {
      throw unknown(
          "has registers that are not known here (XCR0 %s)".formatted(Long.toHexString(enabled)));
    }
    int size = state.length;
    long kept = enabled;
    if ((enabled & TILES) != 0 && (used & TILES) == 0) {
      size -= TILE_BYTES;
      kept &= ~TILES;
    }
    ByteBuffer frame =
        ByteBuffer.wrap(Arrays.copyOf(state, size + Integer.BYTES)).order(ByteOrder.LITTLE_ENDIAN);
    frame.position(SOFTWARE);
    frame.putInt(MAGIC_1).putInt(size + Integer.BYTES).putLong(kept).putInt(size);
    while (frame.position() < IN_USE) {
      frame.put((byte) 0);
    }
    // The kernel gives the keys' value, and need not call it in use.
    frame.putLong(IN_USE, (used & kept) | (enabled & PROTECTION_KEYS));
    frame.putInt(size, MAGIC_2);
    return frame.array();
  }

  private static UntraceableException unknown(String what) {
    return new UntraceableException(
        Untraceable.Reason.REGISTERS,
        "the floating point state of this machine " + what + ", so no thread can be borrowed");
  }
}
