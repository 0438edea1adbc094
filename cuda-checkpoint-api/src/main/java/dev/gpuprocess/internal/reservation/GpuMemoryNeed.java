package dev.gpuprocess.internal.reservation;

import dev.gpuprocess.cuda.Gpu;
import dev.gpuprocess.cuda.GpuReading;
import dev.gpuprocess.cuda.GpuUuid;
import dev.gpuprocess.internal.state.GpuUsage;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.TreeMap;
import java.util.stream.Stream;

/**
 * The memory that a restore needs on each target GPU. Immutable.
 *
 * @param bytes by GPU, with a margin; other GPUs are not needed
 * @param bounded the GPUs for which only an upper bound is known
 * @param isKnown false if not even an upper bound is known
 */
public record GpuMemoryNeed(Map<GpuUuid, Long> bytes, List<GpuUuid> bounded, boolean isKnown) {

  /** The driver needs a little more than it attributes to the process. */
  private static final long MARGIN = 64L << 20;

  public GpuMemoryNeed {
    bytes = Map.copyOf(bytes);
    bounded = List.copyOf(bounded);
  }

  /**
   * Returns the need of a process.
   *
   * @param held its usage of the GPUs that it was on
   * @param pairs maps these GPUs to the target GPUs
   * @param bound the most that it can have used on a GPU for which its usage is unknown
   */
  public static GpuMemoryNeed of(
      GpuUsage held, Map<GpuUuid, GpuUuid> pairs, GpuReading reading, OptionalLong bound) {
    Map<GpuUuid, Long> needed = new TreeMap<>();
    held.known()
        .forEach(
            (from, bytes) -> {
              if (bytes > 0) {
                needed.merge(pairs.getOrDefault(from, from), withMargin(bytes), GpuUsage::sum);
              }
            });
    if (held.complete()) {
      return new GpuMemoryNeed(needed, List.of(), true);
    }
    Stream<GpuUuid> seen =
        pairs.isEmpty() ? reading.gpus().stream().map(Gpu::uuid) : pairs.keySet().stream();
    List<GpuUuid> unknown =
        seen.filter(gpu -> !held.known().containsKey(gpu))
            .map(gpu -> pairs.getOrDefault(gpu, gpu))
            .toList();
    unknown.forEach(gpu -> needed.merge(gpu, bound.orElse(0), GpuUsage::sum));
    return new GpuMemoryNeed(needed, unknown, bound.isPresent());
  }

  /** Returns how many bytes must be free for this many bytes of a process. */
  static long withMargin(long bytes) {
    return GpuUsage.sum(bytes, MARGIN);
  }

  /** Returns the need of two processes together. */
  GpuMemoryNeed plus(GpuMemoryNeed other) {
    Map<GpuUuid, Long> sums = new TreeMap<>(bytes);
    other.bytes.forEach((gpu, more) -> sums.merge(gpu, more, GpuUsage::sum));
    return new GpuMemoryNeed(
        sums,
        Stream.concat(bounded.stream(), other.bounded.stream()).distinct().toList(),
        isKnown && other.isKnown);
  }
}
