package dev.gpuprocess.internal.proc;

import java.util.function.Consumer;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The NUMA policy of a mapping ({@code /proc/PID/numa_maps}): its own, or that of the first thread.
 *
 * @param start the first address of the mapping
 * @param mode such as {@code default} or {@code bind}
 */
public record NumaPolicy(long start, String mode) {

  private static final Pattern LINE =
      Pattern.compile("([0-9a-f]{1,16}) (weighted interleave|prefer \\(many\\)|[a-z]+).*");
  private static final String DEFAULT = "default";

  /**
   * Visits the mappings of a process.
   *
   * @param each its exception ends the walk
   * @throws ProcessUnreadableException when the process may not be read
   */
  public static void visit(int pid, Consumer<NumaPolicy> each) {
    ProcFile.lines(
        ProcFs.file(pid, "numa_maps"),
        line -> {
          Matcher fields = LINE.matcher(line);
          if (fields.matches()) {
            each.accept(
                new NumaPolicy(Long.parseUnsignedLong(fields.group(1), 16), fields.group(2)));
          }
        });
  }

  /** Returns whether memory is allocated on the node of the CPU that touches it first. */
  public boolean isDefault() {
    return mode.equals(DEFAULT);
  }
}
