package dev.gpuprocess.internal.reservation;

import dev.gpuprocess.cuda.Gpu;
import dev.gpuprocess.cuda.GpuMap;
import dev.gpuprocess.cuda.GpuPair;
import dev.gpuprocess.cuda.GpuReading;
import dev.gpuprocess.cuda.GpuUuid;
import dev.gpuprocess.internal.state.GpuUsage;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.ToLongFunction;

/**
 * Turns a {@link GpuMap} into the pairs for the driver: none if all memory stays on its GPU, else
 * one for every GPU of this machine and for every GPU of another machine that the memory comes
 * from.
 */
final class GpuPlacement {

  private final Map<GpuUuid, Long> held = new TreeMap<>();
  private final Map<GpuUuid, Long> needs;
  private final boolean isKnown;
  private final GpuReading reading;
  private final ToLongFunction<Gpu> free;

  /**
   * Creates a placement.
   *
   * @param held the usage of the GPUs that the memory was on
   * @param needs the bytes that a restore needs, by the same GPUs
   * @param free returns how many bytes of a GPU are neither used nor reserved
   */
  GpuPlacement(
      GpuUsage held, Map<GpuUuid, Long> needs, GpuReading reading, ToLongFunction<Gpu> free) {
    this.needs = Map.copyOf(needs);
    held.known().forEach((gpu, bytes) -> this.held.merge(gpu, bytes, GpuUsage::sum));
    this.held.values().removeIf(bytes -> bytes == 0);
    this.isKnown = held.complete();
    this.reading = reading;
    this.free = free;
  }

  /**
   * Returns the pairs.
   *
   * @return empty if all memory stays on its GPU
   * @throws ImpossibleMapException if a GPU of the map is missing, unreadable, or ambiguous
   */
  List<GpuPair> pairs(GpuMap map) throws ImpossibleMapException {
    if (map instanceof GpuMap.Exactly exactly) {
      return pairs(exactly.targets());
    }
    if (map instanceof GpuMap.Swap swap) {
      requireHere(swap.one());
      requireHere(swap.other());
      return all(Map.of(swap.one(), swap.other(), swap.other(), swap.one()));
    }
    if (map instanceof GpuMap.To to) {
      requireHere(to.target());
      return all(Map.of(onlyOne(to.target()), to.target()));
    }
    if (map instanceof GpuMap.Automatic) {
      return isKnown ? all(fitting()) : List.of();
    }
    return List.of();
  }

  /**
   * Returns the pairs for unknown GPUs.
   *
   * @throws ImpossibleMapException if the GPUs must be known
   */
  static List<GpuPair> pairsUnseen(GpuMap map) throws ImpossibleMapException {
    if (map instanceof GpuMap.Exactly exactly) {
      return pairs(exactly.targets());
    }
    if (map instanceof GpuMap.Swap || map instanceof GpuMap.To) {
      throw new ImpossibleMapException(
          "the driver needs a pair for every GPU, and the GPUs are not known without NVML: name the pairs");
    }
    return List.of();
  }

  private void requireHere(GpuUuid gpu) throws ImpossibleMapException {
    if (find(gpu).isEmpty()) {
      throw new ImpossibleMapException(
          "%s is not a GPU of this machine, which has %s%s"
              .formatted(
                  gpu,
                  reading.gpus().stream().map(Gpu::uuid).toList(),
                  reading.unreadable().isEmpty()
                      ? ""
                      : ", and others that cannot be read: " + reading.unreadable()));
    }
  }

  private Optional<Gpu> find(GpuUuid gpu) {
    return reading.gpus().stream().filter(each -> each.uuid().equals(gpu)).findFirst();
  }

  private GpuUuid onlyOne(GpuUuid target) throws ImpossibleMapException {
    if (!isKnown) {
      throw new ImpossibleMapException(
          "it is not known on which GPUs memory was held, so it cannot be moved to %s: set ResumeOptions.needs, or name the pairs"
              .formatted(target));
    }
    if (held.size() != 1) {
      throw new ImpossibleMapException(
          "memory was held on %s GPUs, and not all of it can go to %s: name the pairs"
              .formatted(held.size(), target));
    }
    return held.keySet().iterator().next();
  }

  /** Memory that fits on its own GPU stays. For the rest, the largest part is placed first. */
  private Map<GpuUuid, GpuUuid> fitting() {
    Map<GpuUuid, GpuUuid> targets = new TreeMap<>();
    List<GpuUuid> moving = new ArrayList<>();
    held.forEach(
        (gpu, bytes) -> {
          if (find(gpu).filter(own -> fits(own, gpu)).isPresent()) {
            targets.put(gpu, gpu);
          } else {
            moving.add(gpu);
          }
        });
    moving.sort(Comparator.comparing((GpuUuid gpu) -> held.getOrDefault(gpu, 0L)).reversed());
    for (GpuUuid gpu : moving) {
      Optional<Gpu> best =
          reading.gpus().stream()
              .filter(each -> !targets.containsValue(each.uuid()))
              .filter(each -> find(gpu).map(own -> own.name().equals(each.name())).orElse(true))
              .filter(each -> fits(each, gpu))
              .max(Comparator.comparingLong(free));
      if (best.isEmpty()) {
        return Map.of();
      }
      targets.put(gpu, best.get().uuid());
    }
    return targets;
  }

  private boolean fits(Gpu gpu, GpuUuid from) {
    return free.applyAsLong(gpu) >= needs.getOrDefault(from, Long.MAX_VALUE);
  }

  /** Completes a map: all other GPUs stay if possible, or take the places that are left. */
  private List<GpuPair> all(Map<GpuUuid, GpuUuid> wanted) throws ImpossibleMapException {
    if (wanted.entrySet().stream().allMatch(each -> each.getKey().equals(each.getValue()))) {
      return List.of();
    }
    if (!reading.unreadable().isEmpty()) {
      throw new ImpossibleMapException(
          "the driver needs a pair for every GPU, and NVML cannot read all of them (%s): name the pairs"
              .formatted(String.join("; ", reading.unreadable())));
    }
    Map<GpuUuid, GpuUuid> targets = new TreeMap<>(wanted);
    Set<GpuUuid> left = new TreeSet<>();
    List<GpuUuid> places = new ArrayList<>();
    for (Gpu gpu : reading.gpus()) {
      boolean taken = wanted.containsValue(gpu.uuid());
      if (!wanted.containsKey(gpu.uuid())) {
        if (taken) {
          left.add(gpu.uuid());
        } else {
          targets.put(gpu.uuid(), gpu.uuid());
        }
      } else if (!taken) {
        places.add(gpu.uuid());
      }
    }
    // A GPU whose place is taken gets a place that was left. With two GPUs that is a swap.
    for (GpuUuid gpu : left) {
      if (!places.isEmpty()) {
        targets.put(gpu, places.remove(0));
      }
    }
    return pairs(targets);
  }

  /** Returns the pairs, ordered by GPU. */
  private static List<GpuPair> pairs(Map<GpuUuid, GpuUuid> targets) {
    return new TreeMap<>(targets)
        .entrySet().stream().map(each -> new GpuPair(each.getKey(), each.getValue())).toList();
  }
}
