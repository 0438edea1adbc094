package dev.gpuprocess.internal.pool;

import dev.gpuprocess.internal.linux.NamelessFile;
import dev.gpuprocess.internal.linux.NativeCallException;
import java.util.List;

/**
 * Memory for the save areas of one process. A process that maps the files keeps them when this is
 * closed.
 *
 * @param files in the order in which they are mapped
 */
public record PreparedMemory(List<NamelessFile> files) implements AutoCloseable {

  /** No memory. */
  public static final PreparedMemory NONE = new PreparedMemory(List.of());

  /**
   * Frees the memory after the save areas. No process may map it.
   *
   * @param used how many bytes the save areas need
   * @throws NativeCallException if a file cannot be shortened
   */
  public void trim(long used) throws NativeCallException {
    long left = used;
    for (NamelessFile file : files) {
      if (left < file.bytes()) {
        file.truncate(Math.max(0, left));
      }
      left -= file.bytes();
    }
  }

  @Override
  public void close() {
    files.forEach(NamelessFile::close);
  }
}
