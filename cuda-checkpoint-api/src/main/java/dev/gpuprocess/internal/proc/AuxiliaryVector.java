package dev.gpuprocess.internal.proc;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.OptionalLong;

/**
 * The auxiliary vector, which the kernel passes to a program it executes ({@code /proc/PID/auxv}).
 */
public final class AuxiliaryVector {

  /** The address of 16 random bytes, which differ for each executed program. */
  public static final long AT_RANDOM = 25;

  private static final int ENTRY = 2 * Long.BYTES;
  private static final int MOST_BYTES = 1 << 12;

  private AuxiliaryVector() {}

  /**
   * Reads one value.
   *
   * @param pid a process of 64 bits
   * @param type {@code AT_...}
   * @return empty when the vector lacks it or the process is gone
   * @throws ProcessUnreadableException when it may not be read
   */
  public static OptionalLong value(long pid, long type) {
    byte[] bytes = ProcFile.head(ProcFs.alive(pid).resolve("auxv"), MOST_BYTES).orElse(new byte[0]);
    ByteBuffer vector = ByteBuffer.wrap(bytes).order(ByteOrder.nativeOrder());
    while (vector.remaining() >= ENTRY) {
      long found = vector.getLong();
      long value = vector.getLong();
      if (found == type) {
        return OptionalLong.of(value);
      }
    }
    return OptionalLong.empty();
  }
}
