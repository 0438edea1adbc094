package dev.gpuprocess.internal.linux;

import java.io.IOException;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;

/**
 * A pool of buffers of one size for copies. It grows to the largest number of threads that copied
 * at the same time and is never emptied, since only a garbage collection frees direct memory. Safe
 * for use by several threads.
 */
public final class CopyBuffers {

  /** Small enough to stay in a core's cache, and large enough for direct I/O. */
  public static final CopyBuffers SMALL = new CopyBuffers(1 << 20);

  /**
   * For reads from a disk past the page cache. On a virtual disk four threads read 1.3 GB/s in
   * blocks of 16 MiB, as dd does, and 1.1 GB/s in blocks of 1 or 4 MiB ({@code docs/gpu-runs}).
   */
  public static final CopyBuffers LARGE = new CopyBuffers(16 << 20);

  private final int size;
  private final Queue<AlignedBuffer> idle = new ConcurrentLinkedQueue<>();

  private CopyBuffers(int size) {
    this.size = size;
  }

  /**
   * Takes a buffer, to be given back.
   *
   * @return a buffer of this pool's size, or a small one if this JVM lacks the memory for it
   * @throws IOException if this JVM has no memory for a small one either
   */
  public AlignedBuffer take() throws IOException {
    AlignedBuffer again = idle.poll();
    if (again != null) {
      return again;
    }
    try {
      return AlignedBuffer.allocate(size);
    } catch (OutOfMemoryError limited) {
      if (this != SMALL) {
        return SMALL.take();
      }
      throw new IOException(
          "this JVM has no direct memory left to copy through: raise -XX:MaxDirectMemorySize",
          limited);
    }
  }

  /** Gives back a buffer that was taken from this pool. */
  public void give(AlignedBuffer buffer) {
    (buffer.size() == size ? this : SMALL).idle.add(buffer);
  }
}
