package dev.gpuprocess.internal.memory;

import dev.gpuprocess.internal.os.NamelessFile;
import java.util.List;

/**
 * Memory for the save area of one process. The process that maps it keeps it when this is closed.
 *
 * @param files one after the other
 */
public record PreparedMemory(List<NamelessFile> files) implements AutoCloseable {

  /** None. */
  public static final PreparedMemory NONE = new PreparedMemory(List.of());

  @Override
  public void close() {
    files.forEach(NamelessFile::close);
  }
}
