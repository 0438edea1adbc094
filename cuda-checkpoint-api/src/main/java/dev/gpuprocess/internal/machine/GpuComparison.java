package dev.gpuprocess.internal.machine;

import dev.gpuprocess.cuda.Gpu;
import dev.gpuprocess.cuda.GpuReading;
import dev.gpuprocess.error.MachineDifference;
import dev.gpuprocess.error.MachineDifference.Aspect;
import dev.gpuprocess.image.ImageMachine;
import dev.gpuprocess.internal.manifest.ManifestData;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;

/**
 * Compares the GPUs that the processes of an image used with those of this machine, which must have
 * at least as many of each kind.
 */
final class GpuComparison {

  private static final String SUBJECT = "GPUs";

  private final Set<String> held = new TreeSet<>();
  private final ImageMachine before;
  private final GpuReading here;

  private GpuComparison(ManifestData manifest, ImageMachine before, GpuReading here) {
    manifest.cudaProcesses().forEach(each -> held.addAll(each.gpuBytes().keySet()));
    held.retainAll(before.gpus().keySet());
    this.before = before;
    this.here = here;
  }

  static List<MachineDifference> of(ManifestData manifest, ImageMachine before, ThisMachine now) {
    if (manifest.cudaProcesses().isEmpty() || before.gpus().isEmpty()) {
      return List.of();
    }
    return now.gpus()
        .map(here -> new GpuComparison(manifest, before, here).run())
        .orElseGet(() -> List.of(difference(counted(before.gpus().values()), "not known", false)));
  }

  private List<MachineDifference> run() {
    Map<String, Long> kinds = counts(here.gpus().stream().map(Gpu::name).toList());
    Map<String, Long> needed = needed();
    long missing =
        needed.entrySet().stream()
            .mapToLong(each -> Math.max(0, each.getValue() - kinds.getOrDefault(each.getKey(), 0L)))
            .sum();
    if (missing > 0) {
      // An inventory that does not respond lists no GPU, and has one reason for all of them.
      boolean mayBeThere =
          here.unreadable().size() >= missing
              || (here.gpus().isEmpty() && !here.unreadable().isEmpty());
      return List.of(
          difference(
              words(needed),
              (kinds.isEmpty() ? "none" : words(kinds)) + (mayBeThere ? " that can be read" : ""),
              !mayBeThere));
    }
    return remarkable();
  }

  /** If the used GPUs are unknown, and the machine had one kind, one of these is needed. */
  private Map<String, Long> needed() {
    if (!held.isEmpty()) {
      return counts(held.stream().map(each -> before.gpus().getOrDefault(each, "")).toList());
    }
    Set<String> all = new HashSet<>(before.gpus().values());
    return all.size() == 1 ? counts(all) : Map.of();
  }

  private List<MachineDifference> remarkable() {
    List<MachineDifference> found = new ArrayList<>();
    Set<String> there =
        here.gpus().stream().map(each -> each.uuid().text()).collect(Collectors.toSet());
    List<String> others = held.stream().filter(each -> !there.contains(each)).toList();
    if (!others.isEmpty() && here.unreadable().isEmpty()) {
      found.add(
          difference(
              String.join(", ", others), "others (ResumeOptions.gpus says to which)", false));
    }
    int count = here.gpus().size() + here.unreadable().size();
    if (count < before.gpus().size()) {
      found.add(difference(Integer.toString(before.gpus().size()), Integer.toString(count), false));
    }
    return found;
  }

  private static Map<String, Long> counts(Collection<String> names) {
    return names.stream()
        .map(ThisMachine::recordedName)
        .collect(Collectors.groupingBy(each -> each, TreeMap::new, Collectors.counting()));
  }

  private static String counted(Collection<String> names) {
    return words(counts(names));
  }

  private static String words(Map<String, Long> counts) {
    return counts.entrySet().stream()
        .map(each -> each.getValue() + " x " + each.getKey())
        .collect(Collectors.joining(", "));
  }

  private static MachineDifference difference(String before, String now, boolean prevents) {
    return new MachineDifference(Aspect.GPU, SUBJECT, before, now, prevents);
  }
}
