package dev.gpuprocess.criu.preflight;

import dev.gpuprocess.Finding;
import dev.gpuprocess.Finding.Severity;
import dev.gpuprocess.error.UnsupportedResource;
import dev.gpuprocess.proc.ProcFs;
import dev.gpuprocess.proc.ProcStat;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * Collects findings. All descriptors of a process with the same trouble become one: a forked worker
 * holds dozens of the same device.
 */
final class Troubles {

  private static final int MOST_NAMED = 8;

  private final List<Finding> general = new ArrayList<>();
  private final Map<Trouble, List<String>> found = new LinkedHashMap<>();

  private record Trouble(
      Severity severity,
      int pid,
      String kind,
      String name,
      String why,
      String cure,
      @Nullable String option) {

    Finding finding(List<String> handles) {
      String handle = (handles.size() == 1 ? kind : kind + "s") + " " + join(handles);
      return new Finding(
          severity,
          who(pid) + ", " + handle,
          name + " " + why,
          cure,
          new UnsupportedResource(pid, handle, name, option));
    }

    private static String join(List<String> handles) {
      int more = handles.size() - MOST_NAMED;
      return more <= 0
          ? String.join(", ", handles)
          : String.join(", ", handles.subList(0, MOST_NAMED)) + " and " + more + " more";
    }
  }

  /** Such as {@code process 12 (sleep)}. */
  static String who(int pid) {
    return "process "
        + pid
        + ProcFs.stat(pid).map(ProcStat::name).map(" (%s)"::formatted).orElse("");
  }

  /** Something that no option allows. */
  void problem(Place place, String name, String why, String cure) {
    add(place, new Trouble(Severity.PROBLEM, place.pid(), place.kind(), name, why, cure, null));
  }

  /** Something that an option allows, such as {@code DumpOptions.fileLocks(true)}. */
  void needs(Place place, String name, String why, String option) {
    needs(place, name, why, option, "set " + option);
  }

  /** Something that an option allows, which is not the best cure, or not the whole one. */
  void needs(Place place, String name, String why, String option, String cure) {
    add(place, new Trouble(Severity.PROBLEM, place.pid(), place.kind(), name, why, cure, option));
  }

  private void add(Place place, Trouble trouble) {
    found.computeIfAbsent(trouble, none -> new ArrayList<>()).add(place.handle());
  }

  /** What concerns no resource. */
  void add(Severity severity, String subject, String what, String cure) {
    general.add(new Finding(severity, subject, what, cure));
  }

  List<Finding> findings() {
    List<Finding> all = new ArrayList<>(general);
    found.forEach((trouble, handles) -> all.add(trouble.finding(handles)));
    return all;
  }
}
