package dev.gpuprocess.internal.handover;

import dev.gpuprocess.internal.os.FileSystemRoom;
import dev.gpuprocess.internal.os.FileSystemStatus;
import dev.gpuprocess.internal.proc.ControlGroup;
import dev.gpuprocess.internal.proc.HostMemory;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.text.Bytes;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;

/**
 * Whether there is memory for spools. What is handed over to one leaves its process piece by piece,
 * and one process comes after the other, so the machine needs two pieces more than it uses: one
 * that is copied, and the one before it that is about to be mapped. But the kernel charges the
 * whole of it to the control group of this JVM.
 */
public final class SpoolRoom {

  /** What must be left free, lest the kernel kill a process for it. */
  static final long SPARE_BYTES = 256 << 20;

  private static final Path MEMORY = Path.of("/proc/meminfo");

  private SpoolRoom() {}

  /**
   * Looks for what stands in the way.
   *
   * @param place where the spools would be
   * @param bytes how much memory they would take, by pid
   * @return empty when nothing does
   */
  public static Optional<String> obstacle(Path place, Map<Integer, Long> bytes) {
    return obstacle(place, bytes, MEMORY);
  }

  static Optional<String> obstacle(Path place, Map<Integer, Long> bytes, Path memory) {
    try {
      if (!FileSystemStatus.of(place).isInMemory()) {
        return Optional.of(place + " is not in memory (tmpfs)");
      }
      long all = bytes.values().stream().reduce(0L, Long::sum);
      long room = FileSystemRoom.of(place).bytes();
      if (room < all) {
        return lacks(place.toString(), room, all);
      }
      long more = inTransit(all) + SPARE_BYTES;
      long available = HostMemory.read(memory).available();
      if (available < more) {
        return lacks("this machine", available, more);
      }
      long ours =
          bytes.entrySet().stream()
              .filter(each -> isInOurGroup(each.getKey()))
              .mapToLong(Map.Entry::getValue)
              .sum();
      long charged = all - ours + inTransit(ours) + SPARE_BYTES;
      OptionalLong allowed = ControlGroup.memoryRoom(ProcessHandle.current().pid());
      return allowed.isPresent() && allowed.getAsLong() < charged
          ? lacks("the control group of this JVM", allowed.getAsLong(), charged)
          : Optional.empty();
    } catch (IOException e) {
      return Optional.of(String.valueOf(e.getMessage()));
    }
  }

  /** How much of that is in memory twice at a time. */
  private static long inTransit(long bytes) {
    return Math.min(bytes, 2 * HandOver.PIECE_BYTES);
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
