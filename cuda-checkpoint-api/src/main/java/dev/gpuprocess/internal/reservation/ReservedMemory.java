package dev.gpuprocess.internal.reservation;

import dev.gpuprocess.cuda.Gpu;
import dev.gpuprocess.cuda.GpuUuid;
import dev.gpuprocess.internal.linux.ProcessKey;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.report.ProcessIdentity;
import java.time.Duration;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.TreeMap;

/**
 * The GPU memory that is reserved for the restore of a process. Immutable.
 *
 * @param since the time of the reservation, in clock ticks since boot
 * @param bytes by GPU, until the end of the restore
 */
public record ReservedMemory(ProcessKey process, long since, Map<GpuUuid, Long> bytes) {

  private static final int TICKS_PER_SECOND = 100;
  private static final int WORDS = 4;

  public ReservedMemory {
    bytes = Map.copyOf(bytes);
  }

  /** Returns memory that is reserved from now on. */
  public static ReservedMemory of(ProcessIdentity process, Map<GpuUuid, Long> bytes) {
    return new ReservedMemory(ProcessKey.of(process), ProcFs.ticksNow(), bytes);
  }

  boolean isOf(ProcessIdentity other) {
    return process.equals(ProcessKey.of(other));
  }

  /** Returns false also for a reservation of an earlier boot, once this boot has lasted as long. */
  boolean isYoungerThan(Duration age) {
    long ticks = ProcFs.ticksNow() - since;
    return ticks >= 0 && ticks / TICKS_PER_SECOND < age.toSeconds();
  }

  /** Returns how much the process has not used yet on a GPU; all of it if that is unknown. */
  long stillNeeds(Gpu gpu) {
    Optional<ProcessIdentity> here = process.find().process();
    long taken =
        gpu.users().stream()
            .filter(user -> here.isPresent() && user.pid() == here.get().pid())
            .map(Gpu.User::bytes)
            .flatMapToLong(OptionalLong::stream)
            .sum();
    return Math.max(0, bytes.getOrDefault(gpu.uuid(), 0L) - taken);
  }

  /** Returns the note of the lock, one line. */
  public String text() {
    StringBuilder text = new StringBuilder();
    text.append(process.namespace()).append(' ').append(process.pid()).append(' ');
    text.append(process.startTicks()).append(' ').append(since);
    new TreeMap<>(bytes)
        .forEach((gpu, size) -> text.append(' ').append(gpu).append('=').append(size.longValue()));
    return text.toString();
  }

  /** Parses the result of {@link #text}; throws IllegalArgumentException for any other text. */
  static ReservedMemory parse(String text) {
    String[] words = text.split(" ");
    if (words.length < WORDS) {
      throw new IllegalArgumentException("'" + text + "' is not a reservation");
    }
    Map<GpuUuid, Long> bytes = new TreeMap<>();
    for (int i = WORDS; i < words.length; i++) {
      int equals = words[i].indexOf('=');
      bytes.put(
          GpuUuid.of(words[i].substring(0, Math.max(0, equals))),
          Long.valueOf(words[i].substring(equals + 1)));
    }
    return new ReservedMemory(
        ProcessKey.parse(words[0], words[1], words[2]), Long.parseLong(words[3]), bytes);
  }
}
