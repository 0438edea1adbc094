package dev.gpuprocess.internal.reservation;

import dev.gpuprocess.cuda.Gpu;
import dev.gpuprocess.cuda.GpuMap;
import dev.gpuprocess.cuda.GpuReading;
import dev.gpuprocess.cuda.GpuUuid;
import dev.gpuprocess.internal.state.GpuUsage;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.ToLongFunction;
import java.util.stream.Collectors;

/**
 * Turns a {@link GpuMap} into the pairs for the driver: none if all memory stays on its GPU, else
 * one for every GPU of the machine of the checkpoint, whose GPUs are those that the process knows.
 */
final class GpuPlacement {

  private final Map<GpuUuid, Long> held = new TreeMap<>();
  private final Map<GpuUuid, Long> needs;
  private final boolean isKnown;
  private final Map<GpuUuid, String> machine;
  private final GpuReading reading;
  private final ToLongFunction<Gpu> free;

  /**
   * Creates a placement.
   *
   * @param held the usage of the GPUs that the memory was on
   * @param needs the bytes that a restore needs, by the same GPUs
   * @param machine the GPUs of the machine of the checkpoint, by kind; empty for this machine
   * @param free returns how many bytes of a GPU are neither used nor reserved
   */
  GpuPlacement(
      GpuUsage held,
      Map<GpuUuid, Long> needs,
      Map<GpuUuid, String> machine,
      GpuReading reading,
      ToLongFunction<Gpu> free) {
    this.machine = new TreeMap<>(machine);
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
  Map<GpuUuid, GpuUuid> pairs(GpuMap map) throws ImpossibleMapException {
    if (map instanceof GpuMap.Exactly exactly) {
      return new TreeMap<>(exactly.targets());
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
    if (map instanceof GpuMap.Automatic automatic) {
      return automatic(automatic.among());
    }
    requireSame();
    return Map.of();
  }

  /**
   * Refuses memory from another machine that cannot come back to its GPU: the driver would fail
   * with an error that names no GPU. A process of this machine may use a GPU that this controller
   * does not see, as in a container.
   */
  private void requireSame() throws ImpossibleMapException {
    if (machine.isEmpty()) {
      return;
    }
    Set<GpuUuid> missing = new TreeSet<>(isKnown ? held.keySet() : machine.keySet());
    boolean isSure = isKnown || missing.stream().noneMatch(gpu -> find(gpu).isPresent());
    missing.removeIf(gpu -> find(gpu).isPresent());
    if (isSure && isMissing(missing)) {
      throw new ImpossibleMapException(
          "memory was held on %s, and this machine has %s: set ResumeOptions.gpus, such as to GpuMap.automatic()"
              .formatted(words(missing), reading.gpus().stream().map(Gpu::uuid).toList()));
    }
  }

  /** Returns whether one of some GPUs is not in this machine; false if that is not known. */
  private boolean isMissing(Collection<GpuUuid> gpus) {
    return reading.unreadable().isEmpty() && gpus.stream().anyMatch(gpu -> find(gpu).isEmpty());
  }

  private static String words(Collection<GpuUuid> gpus) {
    return gpus.stream().map(GpuUuid::text).collect(Collectors.joining(", "));
  }

  /**
   * Returns the pairs for unknown GPUs.
   *
   * @throws ImpossibleMapException if the GPUs must be known
   */
  static Map<GpuUuid, GpuUuid> pairsUnseen(GpuMap map) throws ImpossibleMapException {
    if (map instanceof GpuMap.Exactly exactly) {
      return new TreeMap<>(exactly.targets());
    }
    if (map.equals(GpuMap.same()) || map.equals(GpuMap.automatic())) {
      return Map.of();
    }
    throw new ImpossibleMapException(
        "the driver needs a pair for every GPU, and the GPUs are not known without NVML: name the pairs");
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

  private Map<GpuUuid, GpuUuid> automatic(Set<GpuUuid> among) throws ImpossibleMapException {
    for (GpuUuid gpu : among) {
      requireHere(gpu);
    }
    if (isKnown) {
      return all(fitting(among));
    }
    if (!among.isEmpty()) {
      return all(anyOf(among));
    }
    return isMissing(machine.keySet()) ? all(Map.of()) : Map.of();
  }

  /** Memory that fits on its own GPU stays. For the rest, the largest part is placed first. */
  private Map<GpuUuid, GpuUuid> fitting(Set<GpuUuid> among) throws ImpossibleMapException {
    boolean mayAllStay = !isMissing(held.keySet()) && mayHold(among, held.keySet());
    Map<GpuUuid, GpuUuid> targets = new TreeMap<>();
    List<GpuUuid> moving = new ArrayList<>();
    held.forEach(
        (gpu, bytes) -> {
          if (mayHold(among, Set.of(gpu)) && find(gpu).filter(own -> fits(own, gpu)).isPresent()) {
            targets.put(gpu, gpu);
          } else {
            moving.add(gpu);
          }
        });
    moving.sort(Comparator.comparing((GpuUuid gpu) -> held.getOrDefault(gpu, 0L)).reversed());
    for (GpuUuid gpu : moving) {
      Optional<Gpu> best = best(gpu, targets.values(), among);
      if (best.filter(each -> fits(each, gpu)).isPresent()) {
        targets.put(gpu, best.get().uuid());
      } else if (mayAllStay) {
        return Map.of(); // the shortage is that of the same GPUs
      } else if (best.isPresent()) {
        targets.put(gpu, best.get().uuid()); // the shortage is that of the GPU with most memory
      } else if (!among.isEmpty()) {
        throw new ImpossibleMapException(
            "memory was held on %s, and of the GPUs that may be used (%s) none of the same kind is left for %s"
                .formatted(words(held.keySet()), words(among), gpu));
      }
    }
    return targets;
  }

  /** Each GPU of the machine of the checkpoint may have held memory. */
  private Map<GpuUuid, GpuUuid> anyOf(Set<GpuUuid> among) throws ImpossibleMapException {
    Set<GpuUuid> before = gpusBefore();
    Map<GpuUuid, GpuUuid> targets = new TreeMap<>();
    before.stream().filter(among::contains).forEach(gpu -> targets.put(gpu, gpu));
    for (GpuUuid gpu : before) {
      if (!targets.containsKey(gpu)) {
        Gpu place =
            best(gpu, targets.values(), among)
                .orElseThrow(
                    () ->
                        new ImpossibleMapException(
                            "it is not known on which of the GPUs %s memory was held, so not all of it may fit on %s: set ResumeOptions.needs, or name the pairs"
                                .formatted(words(before), words(among))));
        targets.put(gpu, place.uuid());
      }
    }
    return targets;
  }

  /** Returns the GPUs of the machine of the checkpoint. */
  private Set<GpuUuid> gpusBefore() {
    Set<GpuUuid> gpus = new TreeSet<>(machine.keySet());
    if (gpus.isEmpty()) {
      reading.gpus().forEach(gpu -> gpus.add(gpu.uuid()));
    }
    return gpus;
  }

  /** Returns whether memory may be on some GPUs, among those that may be used. */
  private static boolean mayHold(Set<GpuUuid> among, Collection<GpuUuid> gpus) {
    return among.isEmpty() || among.containsAll(gpus);
  }

  /** Returns the GPU of the same kind with most free memory that is not taken. */
  private Optional<Gpu> best(GpuUuid gpu, Collection<GpuUuid> taken, Set<GpuUuid> among) {
    return reading.gpus().stream()
        .filter(each -> !taken.contains(each.uuid()))
        .filter(each -> mayHold(among, Set.of(each.uuid())))
        .filter(each -> kind(gpu).map(each.name()::equals).orElse(true))
        .max(Comparator.comparingLong(free));
  }

  /** Returns the kind of a GPU; empty if it is not known. */
  private Optional<String> kind(GpuUuid gpu) {
    return find(gpu).map(Gpu::name).or(() -> Optional.ofNullable(machine.get(gpu)));
  }

  private boolean fits(Gpu gpu, GpuUuid from) {
    return free.applyAsLong(gpu) >= needs.getOrDefault(from, Long.MAX_VALUE);
  }

  /**
   * Completes a map: all other GPUs stay if possible, or take places that are left. With two GPUs
   * that is a swap.
   */
  private Map<GpuUuid, GpuUuid> all(Map<GpuUuid, GpuUuid> wanted) throws ImpossibleMapException {
    Set<GpuUuid> left = gpusBefore();
    boolean isElsewhere = isMissing(left);
    if (!isElsewhere
        && wanted.entrySet().stream().allMatch(each -> each.getKey().equals(each.getValue()))) {
      return Map.of();
    }
    if (!reading.unreadable().isEmpty()) {
      throw new ImpossibleMapException(
          "the driver needs a pair for every GPU, and NVML cannot read all of them (%s): name the pairs"
              .formatted(String.join("; ", reading.unreadable())));
    }
    left.removeAll(wanted.keySet());
    Map<GpuUuid, GpuUuid> targets = new TreeMap<>(wanted);
    for (GpuUuid gpu : left) {
      if (find(gpu).isPresent() && !wanted.containsValue(gpu)) {
        targets.put(gpu, gpu);
      }
    }
    left.removeAll(targets.keySet());
    for (GpuUuid gpu : left) {
      Optional<Gpu> place = best(gpu, targets.values(), Set.of()).or(() -> anyPlace(gpu, targets));
      if (place.isPresent()) {
        targets.put(gpu, place.get().uuid());
      }
    }
    requireAll(isElsewhere, left, targets);
    return targets;
  }

  /** A GPU that holds nothing may go to one of another kind. */
  private Optional<Gpu> anyPlace(GpuUuid gpu, Map<GpuUuid, GpuUuid> targets) {
    return isKnown && !held.containsKey(gpu)
        ? reading.gpus().stream().filter(each -> !targets.containsValue(each.uuid())).findFirst()
        : Optional.empty();
  }

  private void requireAll(boolean isElsewhere, Set<GpuUuid> left, Map<GpuUuid, GpuUuid> targets)
      throws ImpossibleMapException {
    Set<GpuUuid> without = new TreeSet<>(left);
    without.addAll(held.keySet());
    without.removeAll(targets.keySet());
    if (isElsewhere && !without.isEmpty()) {
      throw new ImpossibleMapException(
          "the process comes from a machine with the GPUs %s, and this machine has no GPU of the same kind that is left for %s: use a machine with as many, or name the pairs"
              .formatted(words(machine.keySet()), words(without)));
    }
  }
}
