package dev.gpuprocess.internal.pool;

import dev.gpuprocess.internal.linux.FileSystemStatus;
import dev.gpuprocess.internal.proc.ControlGroup;
import dev.gpuprocess.internal.proc.HostMemory;
import dev.gpuprocess.internal.text.Bytes;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Optional;
import java.util.OptionalLong;

/**
 * Checks that there is memory for files: on their file system, in the machine, and in the control
 * group of this JVM, to which the kernel charges them.
 */
final class HostMemoryCapacity {

  /** Memory to leave free, so that the OOM killer is not triggered. */
  static final long SPARE_BYTES = 256 << 20;

  private HostMemoryCapacity() {}

  /**
   * Returns why files cannot be made.
   *
   * @param directory of the files
   * @param bytes of all files
   * @return empty if there is enough memory
   */
  static Optional<String> obstacle(Path directory, long bytes) {
    return obstacle(directory, bytes, HostMemory.FILE);
  }

  static Optional<String> obstacle(Path directory, long bytes, Path memory) {
    try {
      FileSystemStatus status = FileSystemStatus.of(directory);
      if (!status.isInMemory()) {
        return Optional.of(directory + " is not in memory (tmpfs)");
      }
      if (status.room() < bytes) {
        return lacks(directory.toString(), status.room(), bytes);
      }
      return shortage(bytes, memory);
    } catch (IOException e) {
      return Optional.of(String.valueOf(e.getMessage()));
    }
  }

  /** Returns why there is too little memory, wherever the files will be. */
  static Optional<String> shortage(long bytes) {
    return shortage(bytes, HostMemory.FILE);
  }

  /** Returns why the machine, or the control group of this JVM, has too little memory. */
  private static Optional<String> shortage(long bytes, Path memory) {
    try {
      long needed = bytes + SPARE_BYTES;
      long available = HostMemory.read(memory).available();
      if (available < needed) {
        return lacks("this machine", available, needed);
      }
      OptionalLong allowed = ControlGroup.memoryRoom(ProcessHandle.current().pid());
      return allowed.isPresent() && allowed.getAsLong() < needed
          ? lacks("the control group of this JVM", allowed.getAsLong(), needed)
          : Optional.empty();
    } catch (IOException e) {
      return Optional.of(String.valueOf(e.getMessage()));
    }
  }

  private static Optional<String> lacks(String where, long has, long needs) {
    return Optional.of(
        "%s has %s of memory left, and %s are needed"
            .formatted(where, Bytes.text(Math.max(0, has)), Bytes.text(needs)));
  }
}
