package dev.gpuprocess.internal.os;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;

/** The page size of this machine, which the kernel hands to every process. */
public final class PageSize {

  private static final long AT_PAGESZ = 6;

  public static final long BYTES = read();

  private PageSize() {}

  private static long read() {
    try {
      ByteBuffer vector =
          ByteBuffer.wrap(Files.readAllBytes(Path.of("/proc/self/auxv")))
              .order(ByteOrder.nativeOrder());
      while (vector.getLong() != AT_PAGESZ) {
        vector.getLong();
      }
      return vector.getLong();
    } catch (IOException e) {
      throw new UncheckedIOException("the page size cannot be read", e);
    } catch (BufferUnderflowException e) {
      throw new IllegalStateException("/proc/self/auxv has no page size", e);
    }
  }
}
