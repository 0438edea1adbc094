package dev.gpuprocess.internal.pool;

import dev.gpuprocess.internal.linux.FileSystemRoom;
import dev.gpuprocess.internal.linux.FileSystemStatus;
import dev.gpuprocess.internal.proc.ControlGroup;
import dev.gpuprocess.internal.proc.HostMemory;
import dev.gpuprocess.internal.text.Bytes;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Optional;
import java.util.OptionalLong;

/**
 * Whether there is room for files in memory: on their file system, in the machine, and in the
 * control group of this JVM, to which the kernel charges them.
 */
final class HostMemoryCapacity {

  /** What must be left free, lest the kernel kill a process for it. */
  static final long SPARE_BYTES = 256 << 20;

  private static final Path MEMORY = Path.of("/proc/meminfo");

  private HostMemoryCapacity() {}

  /**
   * Looks for what stands in the way.
   *
   * @param directory where the files would be
   * @param bytes how much they would take
   * @return empty when nothing does
   */
  static Optional<String> obstacle(Path directory, long bytes) {
    return obstacle(directory, bytes, MEMORY);
  }

  static Optional<String> obstacle(Path directory, long bytes, Path memory) {
    try {
      if (!FileSystemStatus.of(directory).isInMemory()) {
        return Optional.of(directory + " is not in memory (tmpfs)");
      }
      long room = FileSystemRoom.of(directory).bytes();
      if (room < bytes) {
        return lacks(directory.toString(), room, bytes);
      }
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

  private static Optional<String> lacks(String who, long has, long needs) {
    return Optional.of(
        "%s has %s of memory left, and %s are needed"
            .formatted(who, Bytes.text(Math.max(0, has)), Bytes.text(needs)));
  }
}
