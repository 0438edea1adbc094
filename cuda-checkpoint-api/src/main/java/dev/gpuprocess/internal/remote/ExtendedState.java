package dev.gpuprocess.internal.remote;

import dev.gpuprocess.internal.remote.UntraceableException.Reason;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;

/**
 * The floating point and vector registers of a thread, as in a signal frame. Ptrace returns them in
 * the same layout, but without the magic numbers of a frame, and always with space for the tiles of
 * AMX. The frame of a thread that has not enabled tiles must not have that space.
 */
final class ExtendedState {

  /** The alignment that the processor requires. */
  static final int ALIGNMENT = 64;

  private static final int SOFTWARE = 464;
  private static final int IN_USE = 512;
  private static final int LEAST = 576;
  private static final int MAGIC_1 = 0x46505853;
  private static final int MAGIC_2 = 0x46505845;

  private static final long PROTECTION_KEYS = 1L << 9;
  private static final long TILES = 1L << 18;
  private static final int TILE_BYTES = 8192;

  /** x87, SSE, AVX, MPX, AVX-512, protection keys, AMX. The tiles of AMX are at the end. */
  private static final long KNOWN = 0x602ff;

  private ExtendedState() {}

  /**
   * Returns the extended state of a signal frame.
   *
   * @param state {@code NT_X86_XSTATE} of ptrace
   * @throws UntraceableException if this CPU has registers that this library does not know
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
          "has registers that this library does not know (XCR0 %s)"
              .formatted(Long.toHexString(enabled)));
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
    // The kernel writes the keys' value, and may not mark it as in use.
    frame.putLong(IN_USE, (used & kept) | (enabled & PROTECTION_KEYS));
    frame.putInt(size, MAGIC_2);
    return frame.array();
  }

  private static UntraceableException unknown(String what) {
    return new UntraceableException(
        Reason.REGISTERS,
        "the floating point state of this machine " + what + ", so no thread can be borrowed");
  }
}
