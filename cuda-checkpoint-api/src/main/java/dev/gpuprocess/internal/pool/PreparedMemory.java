package dev.gpuprocess.internal.pool;

import dev.gpuprocess.internal.linux.NamelessFile;
import dev.gpuprocess.internal.linux.NativeCallException;
import java.util.List;

/**
 * Memory for the save area of one process. The process that maps it keeps it when this is closed.
 *
 * @param files one after the other
 */
public record PreparedMemory(List<NamelessFile> files) implements AutoCloseable {

  /** None. */
  public static final PreparedMemory NONE = new PreparedMemory(List.of());

  /**
   * Frees the memory behind a save area. No process may map it.
   *
   * @param used how much the save area needs, in bytes
   * @throws NativeCallException when a file cannot be shortened
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
