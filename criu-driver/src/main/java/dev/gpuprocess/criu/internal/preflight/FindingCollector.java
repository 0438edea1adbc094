package dev.gpuprocess.criu.internal.preflight;

import dev.gpuprocess.doctor.Finding;
import dev.gpuprocess.doctor.Finding.Severity;
import dev.gpuprocess.error.UnsupportedResource;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * Collects findings. All descriptors of a process with the same trouble become one: a forked worker
 * holds dozens of the same device.
 */
final class FindingCollector {

  private static final int MOST_NAMED = 8;

  /** Of each severity. A tree can be made to have any number of troubles; one would be enough. */
  private static final int MOST_FOUND = 64;

  private final List<Finding> general = new ArrayList<>();
  private final Map<Trouble, Handles> found = new LinkedHashMap<>();
  private final Map<Severity, Integer> kept = new EnumMap<>(Severity.class);
  private final Map<Severity, Integer> more = new EnumMap<>(Severity.class);

  /** The first few, and how many there are. */
  private static final class Handles {

    private final List<String> first = new ArrayList<>();
    private int count;

    void add(String handle) {
      if (count++ < MOST_NAMED) {
        first.add(handle);
      }
    }

    @Override
    public String toString() {
      String named = String.join(", ", first);
      return count <= MOST_NAMED ? named : named + " and " + (count - MOST_NAMED) + " more";
    }
  }

  private record Trouble(
      Severity severity,
      int pid,
      String kind,
      String name,
      String why,
      String cure,
      @Nullable String option) {

    Finding finding(Handles handles) {
      String handle = (handles.count == 1 ? kind : kind + "s") + " " + handles;
      return new Finding(
          severity,
          who(pid) + ", " + handle,
          name + " " + why,
          cure,
          new UnsupportedResource(pid, handle, name, option));
    }
  }

  /** Such as {@code process 12 (sleep)}. */
  static String who(int pid) {
    return "process "
        + pid
        + ProcFs.stat(pid).map(ProcStat::name).map(" (%s)"::formatted).orElse("");
  }

  /** Something that no option allows. */
  void problem(ResourceRef place, String name, String why, String cure) {
    add(place, new Trouble(Severity.PROBLEM, place.pid(), place.kind(), name, why, cure, null));
  }

  /** Something that an option allows, such as {@code DumpOptions.fileLocks(true)}. */
  void needs(ResourceRef place, String name, String why, String option) {
    needs(place, name, why, option, "set " + option);
  }

  /** Something that an option allows, which is not the best cure, or not the whole one. */
  void needs(ResourceRef place, String name, String why, String option, String cure) {
    add(place, new Trouble(Severity.PROBLEM, place.pid(), place.kind(), name, why, cure, option));
  }

  private void add(ResourceRef place, Trouble trouble) {
    Handles known = found.get(trouble);
    if (known != null) {
      known.add(place.handle());
    } else if (kept.merge(trouble.severity(), 1, Integer::sum) <= MOST_FOUND) {
      found.computeIfAbsent(trouble, none -> new Handles()).add(place.handle());
    } else {
      more.merge(trouble.severity(), 1, Integer::sum);
    }
  }

  /** What concerns no resource. */
  void add(Severity severity, String subject, String what, String cure) {
    general.add(new Finding(severity, subject, what, cure));
  }

  List<Finding> findings() {
    List<Finding> all = new ArrayList<>(general);
    found.forEach((trouble, handles) -> all.add(trouble.finding(handles)));
    more.forEach(
        (severity, count) ->
            all.add(
                new Finding(
                    severity,
                    "the process tree",
                    "has %s more findings like these, which are not listed".formatted(count),
                    "")));
    return all;
  }
}
