package dev.gpuprocess.internal.linux;

import java.nio.ByteBuffer;
import jnr.ffi.Pointer;
import jnr.ffi.Runtime;

/**
 * Memory outside of the Java heap, aligned as direct I/O needs it. For one thread.
 *
 * @param bytes the memory
 * @param address its address
 */
public record AlignedBuffer(ByteBuffer bytes, long address) {

  /** An alignment that every file system and disk accepts. */
  static final int ALIGNMENT = 4096;

  private static final ByteBuffer ZEROS = ByteBuffer.allocate(64 << 10).asReadOnlyBuffer();

  /**
   * Allocates direct memory, which the garbage collector frees.
   *
   * @throws OutOfMemoryError when this JVM has no direct memory left ({@code
   *     -XX:MaxDirectMemorySize})
   */
  public static AlignedBuffer allocate(int size) {
    ByteBuffer bytes = ByteBuffer.allocateDirect(size + ALIGNMENT).alignedSlice(ALIGNMENT);
    bytes.limit(size);
    ByteBuffer exact = bytes.slice();
    return new AlignedBuffer(exact, Pointer.wrap(Runtime.getSystemRuntime(), exact).address());
  }

  /** Returns the size in bytes. */
  public int size() {
    return bytes.capacity();
  }

  /** Returns the first bytes, from position 0. */
  public ByteBuffer first(int count) {
    return bytes.clear().limit(count);
  }

  /** Returns a part, which shares its memory with this buffer. */
  AlignedBuffer part(int from, int count) {
    return new AlignedBuffer(bytes.slice(from, count), address + from);
  }

  /** Returns whether the first bytes are zero. Looks no further than the first that is not. */
  boolean isZero(int count) {
    return isZero(first(count));
  }

  /** Returns whether the bytes between position and limit are zero. */
  public static boolean isZero(ByteBuffer data) {
    for (int at = data.position(); at < data.limit(); at += ZEROS.capacity()) {
      int part = Math.min(ZEROS.capacity(), data.limit() - at);
      if (data.slice(at, part).mismatch(ZEROS.slice(0, part)) >= 0) {
        return false;
      }
    }
    return true;
  }
}
