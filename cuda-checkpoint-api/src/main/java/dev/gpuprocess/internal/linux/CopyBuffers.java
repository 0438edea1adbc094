package dev.gpuprocess.internal.linux;

import java.io.IOException;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * A pool of buffers of one size for copies. It grows to the largest number of threads that copied
 * at the same time, and is never emptied, since only a garbage collection frees direct memory. Safe
 * for use by several threads.
 */
public final class CopyBuffers {

  /** Small enough to stay in a core's cache, and large enough for direct I/O. */
  public static final CopyBuffers SMALL = new CopyBuffers(1 << 20);

  /**
   * For reads from a disk past the page cache. On a virtual disk four threads read 1.3 GB/s in
   * blocks of 16 MiB, as dd does, and 1.1 GB/s in blocks of 1 or 4 MiB ({@code docs/dev/gpu-runs}).
   */
  public static final CopyBuffers LARGE = new CopyBuffers(16 << 20);

  /**
   * How many more large ones may be allocated; 0 after a failure, since each attempt takes the JDK
   * half a second.
   */
  private static final AtomicInteger LARGE_LEFT = new AtomicInteger(IoExecutor.STREAMS);

  private final int size;
  private final Queue<AlignedBuffer> idle = new ConcurrentLinkedQueue<>();

  private CopyBuffers(int size) {
    this.size = size;
  }

  /**
   * Takes a buffer, to be given back.
   *
   * @return a buffer of this pool's size, or of the other size if there is no more memory for it
   * @throws IOException if this JVM has no memory for either
   */
  public AlignedBuffer take() throws IOException {
    AlignedBuffer again = idle.poll();
    if (again != null) {
      return again;
    }
    return this == SMALL ? small() : large();
  }

  private static AlignedBuffer large() throws IOException {
    if (LARGE_LEFT.getAndUpdate(count -> Math.max(0, count - 1)) > 0) {
      try {
        return AlignedBuffer.allocate(LARGE.size);
      } catch (OutOfMemoryError limited) {
        LARGE_LEFT.set(0);
      }
    }
    return SMALL.take();
  }

  private static AlignedBuffer small() throws IOException {
    try {
      return AlignedBuffer.allocate(SMALL.size);
    } catch (OutOfMemoryError limited) {
      AlignedBuffer larger = LARGE.idle.poll();
      if (larger != null) {
        return larger;
      }
      throw new IOException(
          "this JVM has no direct memory left to copy through: raise -XX:MaxDirectMemorySize",
          limited);
    }
  }

  /** Gives back a buffer that a pool has returned. */
  public static void give(AlignedBuffer buffer) {
    (buffer.size() == LARGE.size ? LARGE : SMALL).idle.add(buffer);
  }
}
