package dev.gpuprocess.internal.handover;

import dev.gpuprocess.internal.os.FileSystemRoom;
import dev.gpuprocess.internal.os.FileSystemStatus;
import dev.gpuprocess.internal.proc.ControlGroup;
import dev.gpuprocess.internal.proc.HostMemory;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.text.Bytes;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Optional;
import java.util.OptionalLong;

/**
 * Whether there is memory for a spool. What is handed over to it leaves the process piece by piece,
 * so the machine needs two pieces more than it uses: one that is copied, and the one before it that
 * is about to be mapped. But the kernel charges the whole of it to the control group of this JVM.
 */
public final class SpoolRoom {

  /** What must be left free, lest the kernel kill a process for it. */
  static final long SPARE_BYTES = 256 << 20;

  private static final Path MEMORY = Path.of("/proc/meminfo");

  private SpoolRoom() {}

  /**
   * Looks for what stands in the way.
   *
   * @param place where the spool would be
   * @param pid whose memory it would take
   * @param bytes how much
   * @return empty when nothing does
   */
  public static Optional<String> obstacle(Path place, int pid, long bytes) {
    return obstacle(place, pid, bytes, MEMORY);
  }

  static Optional<String> obstacle(Path place, int pid, long bytes, Path memory) {
    try {
      if (!FileSystemStatus.of(place).isInMemory()) {
        return Optional.of(place + " is not in memory (tmpfs)");
      }
      long room = FileSystemRoom.of(place).bytes();
      if (room < bytes) {
        return lacks(place.toString(), room, bytes);
      }
      long more = Math.min(bytes, 2 * HandOver.PIECE_BYTES) + SPARE_BYTES;
      long available = HostMemory.read(memory).available();
      if (available < more) {
        return lacks("this machine", available, more);
      }
      long charged = isInOurGroup(pid) ? more : bytes + SPARE_BYTES;
      OptionalLong allowed = ControlGroup.memoryRoom(ProcessHandle.current().pid());
      return allowed.isPresent() && allowed.getAsLong() < charged
          ? lacks("the control group of this JVM", allowed.getAsLong(), charged)
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

  private static boolean isInOurGroup(int pid) {
    Optional<String> theirs = ProcFs.read(pid, "cgroup");
    return theirs.isPresent()
        && theirs.equals(ProcFs.read(ProcessHandle.current().pid(), "cgroup"));
  }
}
