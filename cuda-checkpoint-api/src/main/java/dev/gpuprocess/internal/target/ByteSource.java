package dev.gpuprocess.internal.target;

import java.io.IOException;

/** Bytes by their position: the memory of a process, or a file. */
@FunctionalInterface
public interface ByteSource {

  /**
   * Reads bytes.
   *
   * @param position an address or an offset, which may be any number
   * @return that many bytes, or fewer at the end of a file
   * @throws IOException if they cannot be read
   */
  byte[] read(long position, int bytes) throws IOException;
}
