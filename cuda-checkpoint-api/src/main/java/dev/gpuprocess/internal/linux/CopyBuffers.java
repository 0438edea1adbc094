package dev.gpuprocess.internal.linux;

import java.io.IOException;
import java.util.concurrent.ConcurrentLinkedQueue;

/**
 * A pool of buffers for copying memory, small enough to stay in a core's cache and large enough for
 * direct I/O. It grows to the largest number of threads that copied at the same time and is never
 * emptied, since only a garbage collection frees direct memory. Safe for use by several threads.
 */
public final class CopyBuffers {

  public static final int BYTES = 1 << 20;

  private static final ConcurrentLinkedQueue<AlignedBuffer> IDLE = new ConcurrentLinkedQueue<>();

  private CopyBuffers() {}

  public static AlignedBuffer take() throws IOException {
    AlignedBuffer idle = IDLE.poll();
    if (idle != null) {
      return idle;
    }
    try {
      return AlignedBuffer.allocate(BYTES);
    } catch (OutOfMemoryError limited) {
      throw new IOException(
          "this JVM has no direct memory left to copy through: raise -XX:MaxDirectMemorySize",
          limited);
    }
  }

  public static void give(AlignedBuffer buffer) {
    IDLE.add(buffer);
  }
}
