package dev.gpuprocess.internal.room;

import dev.gpuprocess.gpu.Gpu;
import dev.gpuprocess.gpu.GpuUuid;
import dev.gpuprocess.internal.process.ProcessKey;
import dev.gpuprocess.process.ProcessIdentity;
import java.util.Map;
import java.util.OptionalLong;
import java.util.TreeMap;

/**
 * The GPU memory that is reserved for a restore under way. Immutable.
 *
 * @param namespace the inode of the pid namespace that the pid belongs to
 * @param process the process that is restored
 * @param bytes how much is reserved on each GPU until the restore ends
 */
public record ReservedMemory(long namespace, ProcessIdentity process, Map<GpuUuid, Long> bytes) {

  public ReservedMemory {
    bytes = Map.copyOf(bytes);
  }

  /** For a process of our own pid namespace. */
  public static ReservedMemory of(ProcessIdentity process, Map<GpuUuid, Long> bytes) {
    return new ReservedMemory(ProcessKey.self().namespace(), process, bytes);
  }

  boolean isOf(ProcessIdentity other) {
    return process.equals(other) && isOfOurNamespace();
  }

  boolean isOfOurNamespace() {
    return namespace == ProcessKey.self().namespace();
  }

  /** How much of it the process has not taken yet on a GPU; all of it where that cannot be seen. */
  long stillNeeds(Gpu gpu) {
    long taken =
        gpu.users().stream()
            .filter(user -> user.pid() == process.pid() && isOfOurNamespace())
            .map(Gpu.User::bytes)
            .flatMapToLong(OptionalLong::stream)
            .sum();
    return Math.max(0, bytes.getOrDefault(gpu.uuid(), 0L) - taken);
  }

  /** The text of a lock's note, one line. */
  public String text() {
    StringBuilder text = new StringBuilder();
    text.append(namespace).append(' ').append(process.pid()).append(' ');
    text.append(process.startTicks());
    new TreeMap<>(bytes)
        .forEach((gpu, size) -> text.append(' ').append(gpu).append('=').append(size.longValue()));
    return text.toString();
  }

  /** Parses what {@link #text} returned; throws IllegalArgumentException for anything else. */
  static ReservedMemory parse(String text) {
    String[] words = text.split(" ");
    if (words.length < 3) {
      throw new IllegalArgumentException("'" + text + "' is not a reservation");
    }
    Map<GpuUuid, Long> bytes = new TreeMap<>();
    for (int i = 3; i < words.length; i++) {
      int equals = words[i].indexOf('=');
      bytes.put(
          GpuUuid.of(words[i].substring(0, Math.max(0, equals))),
          Long.valueOf(words[i].substring(equals + 1)));
    }
    return new ReservedMemory(
        Long.parseLong(words[0]),
        new ProcessIdentity(Integer.parseInt(words[1]), Long.parseLong(words[2])),
        bytes);
  }
}
