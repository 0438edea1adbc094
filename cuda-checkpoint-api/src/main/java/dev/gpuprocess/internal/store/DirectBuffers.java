package dev.gpuprocess.internal.store;

import java.nio.ByteBuffer;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicInteger;
import org.jspecify.annotations.Nullable;

/**
 * The direct memory that files are read into: one buffer for each core, made once and used again
 * for as long as the JVM lives. Direct memory that is let go comes back only after a garbage
 * collection, which may be long in coming, and the limit of it is the whole JVM's.
 */
final class DirectBuffers {

  static final int BYTES = 256 << 10;

  private static final ConcurrentLinkedQueue<ByteBuffer> IDLE = new ConcurrentLinkedQueue<>();
  private static final AtomicInteger LEFT =
      new AtomicInteger(Runtime.getRuntime().availableProcessors());

  private DirectBuffers() {}

  /** Takes one; null when all are in use, or this JVM has no direct memory left. */
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
      // Each try takes the JDK half a second, so this was the last; heap memory does as well.
      LEFT.set(0);
      return null;
    }
  }

  /** Gives one back. */
  static void give(ByteBuffer buffer) {
    IDLE.add(buffer);
  }
}
