package dev.gpuprocess.internal.linux;

import java.nio.ByteBuffer;
import jnr.ffi.Pointer;
import jnr.ffi.Runtime;

/**
 * Memory outside of the Java heap, aligned as direct I/O needs it. For one thread.
 *
 * @param bytes the memory
 * @param address where it is
 */
public record AlignedBuffer(ByteBuffer bytes, long address) {

  /** What every file system and disk takes. */
  static final int ALIGNMENT = 4096;

  /**
   * Allocates direct memory, which the garbage collector frees.
   *
   * @throws OutOfMemoryError when this JVM has none left ({@code -XX:MaxDirectMemorySize})
   */
  public static AlignedBuffer allocate(int size) {
    ByteBuffer bytes = ByteBuffer.allocateDirect(size + ALIGNMENT).alignedSlice(ALIGNMENT);
    bytes.limit(size);
    ByteBuffer exact = bytes.slice();
    return new AlignedBuffer(exact, Pointer.wrap(Runtime.getSystemRuntime(), exact).address());
  }

  /** Its size. */
  public int size() {
    return bytes.capacity();
  }

  /** The first bytes of it, from position 0. */
  public ByteBuffer first(int count) {
    return bytes.clear().limit(count);
  }
}
