package dev.gpuprocess.internal.state;

import dev.gpuprocess.cuda.Gpu;
import dev.gpuprocess.cuda.GpuReading;
import dev.gpuprocess.cuda.GpuUuid;
import dev.gpuprocess.internal.text.Bytes;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.TreeMap;

/**
 * The memory that a process used on each GPU, when it was last read. Unknown is not zero: an
 * unknown amount is found out before a restore, or the restore is refused. Immutable.
 *
 * @param known bytes by GPU; may be 0
 * @param complete whether the process used no other GPU; otherwise that is unknown
 */
public record GpuUsage(Map<GpuUuid, Long> known, boolean complete) {

  /** The usage of a process of which nothing is known. */
  public static final GpuUsage UNKNOWN = new GpuUsage(Map.of(), false);

  public GpuUsage {
    known = Map.copyOf(known);
  }

  /**
   * Returns the usage that was recorded. An empty record counts as unknown, since every CUDA
   * context uses memory.
   */
  public static GpuUsage of(Map<GpuUuid, Long> recorded) {
    return new GpuUsage(recorded, !recorded.isEmpty());
  }

  /** Returns the usage that a manifest records. */
  public static GpuUsage recorded(Map<String, Long> byUuid) {
    Map<GpuUuid, Long> held = new TreeMap<>();
    byUuid.forEach((gpu, bytes) -> held.put(GpuUuid.of(gpu), bytes));
    return of(held);
  }

  /** Returns the usage that the caller states; the process used no other GPU. */
  public static GpuUsage stated(Map<GpuUuid, Long> needs) {
    return new GpuUsage(needs, true);
  }

  /**
   * Returns the usage that an inventory reports for a process. If it does not list the process,
   * nothing is known: it lists neither processes of other pid namespaces nor clients of MPS.
   */
  public static GpuUsage of(int pid, Optional<GpuReading> reading) {
    if (reading.isEmpty() || !PidNamespace.isOurs(reading.get())) {
      return UNKNOWN;
    }
    Map<GpuUuid, Long> known = new TreeMap<>();
    boolean complete = reading.get().unreadable().isEmpty();
    for (Gpu gpu : reading.get().gpus()) {
      List<OptionalLong> parts =
          gpu.users().stream().filter(user -> user.pid() == pid).map(Gpu.User::bytes).toList();
      if (parts.stream().allMatch(OptionalLong::isPresent)) {
        long bytes = parts.stream().mapToLong(OptionalLong::getAsLong).reduce(0, GpuUsage::sum);
        known.put(gpu.uuid(), bytes);
      } else {
        complete = false;
      }
    }
    if (complete) {
      known.values().removeIf(bytes -> bytes == 0);
      return of(known);
    }
    return new GpuUsage(known, false);
  }

  /** Returns the usage of two processes together. */
  public GpuUsage plus(GpuUsage other) {
    Map<GpuUuid, Long> sums = new TreeMap<>(known);
    other.known.forEach((gpu, more) -> sums.merge(gpu, more, GpuUsage::sum));
    return new GpuUsage(sums, complete && other.complete);
  }

  /** Returns the sum of the known amounts, in bytes. */
  public long bytes() {
    return known.values().stream().mapToLong(Long::longValue).reduce(0, GpuUsage::sum);
  }

  /** Adds, with {@link Long#MAX_VALUE} for a sum that is larger. */
  public static long sum(long one, long other) {
    long sum = one + other;
    return sum < 0 ? Long.MAX_VALUE : sum;
  }

  @Override
  public String toString() {
    StringBuilder text = new StringBuilder();
    new TreeMap<>(known)
        .forEach(
            (gpu, bytes) -> {
              if (bytes > 0) {
                text.append(text.isEmpty() ? "" : ", ")
                    .append(Bytes.text(bytes))
                    .append(" on ")
                    .append(gpu);
              }
            });
    if (!complete) {
      text.append(text.isEmpty() ? "an unknown amount" : ", and an unknown amount elsewhere");
    }
    return text.isEmpty() ? "nothing" : text.toString();
  }
}
