package dev.gpuprocess.internal.image;

import java.nio.ByteBuffer;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicInteger;
import org.jspecify.annotations.Nullable;

/**
 * The direct memory that files are read into: one buffer for each core, allocated once and reused
 * for the life of the JVM. Direct memory is freed only by a garbage collection, which may be long
 * in coming, and its limit is that of the whole JVM. Safe for use by several threads.
 */
final class DirectBuffers {

  static final int BYTES = 256 << 10;

  private static final ConcurrentLinkedQueue<ByteBuffer> IDLE = new ConcurrentLinkedQueue<>();
  private static final AtomicInteger LEFT =
      new AtomicInteger(Runtime.getRuntime().availableProcessors());

  private DirectBuffers() {}

  /** Takes a buffer; null when all are in use, or this JVM has no direct memory left. */
  static @Nullable ByteBuffer take() {
    ByteBuffer idle = IDLE.poll();
    if (idle != null) {
      return idle.clear();
    }
    if (LEFT.getAndUpdate(left -> Math.max(0, left - 1)) == 0) {
      return null;
    }
    try {
      return ByteBuffer.allocateDirect(BYTES);
    } catch (OutOfMemoryError limited) {
      // Each attempt takes the JDK half a second, so this was the last one; heap memory will do.
      LEFT.set(0);
      return null;
    }
  }

  /** Returns a buffer. */
  static void give(ByteBuffer buffer) {
    IDLE.add(buffer);
  }
}
