package dev.gpuprocess.internal.room;

import dev.gpuprocess.gpu.Gpu;
import dev.gpuprocess.gpu.GpuPair;
import dev.gpuprocess.gpu.GpuReading;
import dev.gpuprocess.gpu.GpuUuid;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.TreeMap;
import java.util.stream.Stream;

/**
 * How much a restore needs of each GPU that it goes to.
 *
 * @param bytes by GPU, with a margin; what a GPU is not named with needs nothing
 * @param bounded the GPUs of which only the most that can be needed is known
 * @param isKnown false when something may be needed of any GPU and nothing is known of how much
 */
public record GpuMemoryNeed(Map<GpuUuid, Long> bytes, List<GpuUuid> bounded, boolean isKnown) {

  /** The driver needs a little more than it accounts to the process. */
  private static final long MARGIN = 64L << 20;

  public GpuMemoryNeed {
    bytes = Map.copyOf(bytes);
    bounded = List.copyOf(bounded);
  }

  /**
   * Of a process with these holdings, where GPUs are mapped to others by pairs.
   *
   * @param bound the most that it can have held on a GPU of which that is not known
   */
  public static GpuMemoryNeed of(
      Holdings held, List<GpuPair> pairs, GpuReading reading, OptionalLong bound) {
    Map<GpuUuid, Long> needed = new TreeMap<>();
    held.known()
        .forEach(
            (from, bytes) -> {
              if (bytes > 0) {
                needed.merge(target(from, pairs), sum(bytes, MARGIN), GpuMemoryNeed::sum);
              }
            });
    if (held.complete()) {
      return new GpuMemoryNeed(needed, List.of(), true);
    }
    Stream<GpuUuid> seen =
        pairs.isEmpty()
            ? reading.gpus().stream().map(Gpu::uuid)
            : pairs.stream().map(GpuPair::from);
    List<GpuUuid> unknown =
        seen.filter(gpu -> !held.known().containsKey(gpu)).map(gpu -> target(gpu, pairs)).toList();
    unknown.forEach(gpu -> needed.merge(gpu, bound.orElse(0), GpuMemoryNeed::sum));
    return new GpuMemoryNeed(needed, unknown, bound.isPresent());
  }

  private static GpuUuid target(GpuUuid from, List<GpuPair> pairs) {
    return pairs.stream()
        .filter(pair -> pair.from().equals(from))
        .map(GpuPair::to)
        .findFirst()
        .orElse(from);
  }

  /** Adds sizes, of which some come from outside: what is too large stays large. */
  static long sum(long one, long other) {
    long sum = one + other;
    return sum < 0 ? Long.MAX_VALUE : sum;
  }
}
