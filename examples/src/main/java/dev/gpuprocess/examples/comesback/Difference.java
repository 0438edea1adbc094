package dev.gpuprocess.examples.comesback;

import dev.gpuprocess.options.Attribute;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * Lines that differ between two reports of a process.
 *
 * @param before lines of the first report only
 * @param after lines of the second report only
 */
record Difference(List<String> before, List<String> after) {

  /** The loss by which an image names a line: the line begins with the key. */
  private static final Map<String, Attribute> NAMES =
      Map.ofEntries(
          Map.entry("landlock ", Attribute.LANDLOCK),
          Map.entry("child-landlock ", Attribute.LANDLOCK),
          Map.entry("mdwe ", Attribute.MDWE),
          Map.entry("process write-exec-denied ", Attribute.MDWE),
          Map.entry("mseal ", Attribute.SEALED_MEMORY),
          Map.entry("shm-", Attribute.SHARED_FILES),
          Map.entry("tcp-", Attribute.SOCKET_OPTIONS),
          Map.entry("multicast ", Attribute.SOCKET_OPTIONS),
          Map.entry("keyring ", Attribute.KEYRINGS),
          Map.entry("numa-", Attribute.NUMA_POLICY),
          Map.entry("process memory policy ", Attribute.NUMA_POLICY),
          Map.entry("process personality ", Attribute.PERSONALITY),
          Map.entry("process memory merge ", Attribute.MEMORY_MERGE));

  static Difference between(List<String> first, List<String> second) {
    List<String> before = new ArrayList<>(first);
    before.removeAll(second);
    List<String> after = new ArrayList<>(second);
    after.removeAll(first);
    return new Difference(before, after);
  }

  /** Returns the difference without lines that begin so. */
  Difference without(String start) {
    return new Difference(
        before.stream().filter(line -> !line.startsWith(start)).toList(),
        after.stream().filter(line -> !line.startsWith(start)).toList());
  }

  boolean isEmpty() {
    return before.isEmpty() && after.isEmpty();
  }

  /** Returns whether an image that names these losses names every line. */
  boolean isCoveredBy(List<String> losses) {
    return isCovered(before, losses) && isCovered(after, losses);
  }

  private boolean isCovered(List<String> lines, List<String> losses) {
    return lines.stream()
        .allMatch(
            line ->
                name(line).filter(each -> losses.contains(each.text())).isPresent()
                    || (losses.contains(Attribute.LANDLOCK.text()) && wasForbidden(line)));
  }

  /** Returns whether a line is about what the process was forbidden before, as by Landlock. */
  private boolean wasForbidden(String line) {
    return before.contains(line.substring(0, line.lastIndexOf(' ') + 1) + "EACCES");
  }

  private static Optional<Attribute> name(String line) {
    return NAMES.entrySet().stream()
        .filter(each -> line.startsWith(each.getKey()))
        .map(Map.Entry::getValue)
        .findFirst();
  }

  @Override
  public String toString() {
    return "before %s, after %s".formatted(before, after);
  }
}
