package dev.gpuprocess.criu.internal.preflight;

import dev.gpuprocess.error.UnsupportedResource;
import dev.gpuprocess.error.UnsupportedResource.Kind;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.internal.text.OptionText;
import dev.gpuprocess.report.Finding;
import dev.gpuprocess.report.Finding.Severity;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * Collects findings. All descriptors of a process with the same problem become one finding: a
 * forked worker may hold dozens of the same device.
 */
final class FindingCollector {

  private static final int MOST_NAMED = 8;

  /**
   * The limit for each severity. A tree can be made to have any number of problems, and one is
   * enough.
   */
  private static final int MOST_FOUND = 64;

  private final List<Finding> general = new ArrayList<>();
  private final Map<Problem, Handles> found = new LinkedHashMap<>();
  private final Map<Severity, Integer> kept = new EnumMap<>(Severity.class);
  private final Map<Severity, Integer> more = new EnumMap<>(Severity.class);

  /** The first handles, and the number of all. */
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

  private record Problem(
      Severity severity,
      Kind resource,
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
          process(pid) + ", " + handle,
          name + " " + why,
          cure,
          new UnsupportedResource(resource, pid, handle, name, option));
    }
  }

  /** Such as {@code process 12 (sleep)}. */
  static String process(int pid) {
    return "process "
        + pid
        + ProcFs.stat(pid).map(ProcStat::name).map(" (%s)"::formatted).orElse("");
  }

  /** Reports something that no option allows. */
  void problem(ResourceRef place, String name, String why, String cure) {
    problem(place.kind().equals("mapping") ? Kind.MAPPING : Kind.OTHER, place, name, why, cure);
  }

  /** Reports a resource of a kind that CRIU tells apart, which no option allows. */
  void problem(Kind kind, ResourceRef place, String name, String why, String cure) {
    add(
        place,
        new Problem(Severity.PROBLEM, kind, place.pid(), place.kind(), name, why, cure, null));
  }

  /**
   * Reports something that an option of CRIU allows.
   *
   * @param setting the option, such as {@code file-locks}
   */
  void needs(Kind kind, ResourceRef place, String name, String why, String setting) {
    needs(kind, place, name, why, setting, "use " + OptionText.criu(setting));
  }

  /**
   * Reports something that an option allows, where the option is not the best or the only thing to
   * do.
   */
  void needs(Kind kind, ResourceRef place, String name, String why, String setting, String cure) {
    add(
        place,
        new Problem(
            Severity.PROBLEM,
            kind,
            place.pid(),
            place.kind(),
            name,
            why,
            cure,
            OptionText.criu(setting)));
  }

  private void add(ResourceRef place, Problem problem) {
    Handles known = found.get(problem);
    if (known != null) {
      known.add(place.handle());
    } else if (kept.merge(problem.severity(), 1, Integer::sum) <= MOST_FOUND) {
      found.computeIfAbsent(problem, none -> new Handles()).add(place.handle());
    } else {
      more.merge(problem.severity(), 1, Integer::sum);
    }
  }

  /** Reports something that concerns no resource. */
  void add(Severity severity, String subject, String what, String cure) {
    general.add(new Finding(severity, subject, what, cure));
  }

  List<Finding> findings() {
    List<Finding> all = new ArrayList<>(general);
    found.forEach((problem, handles) -> all.add(problem.finding(handles)));
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
