package dev.gpuprocess.internal.proc;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.OptionalDouble;
import java.util.OptionalLong;

/** The control groups of a process, of version 1 and 2, which a machine may have at once. */
public final class ControlGroup {

  private static final String UNIFIED = "0::";

  private ControlGroup() {}

  /**
   * Returns the memory limits of the groups of a process and of the groups above.
   *
   * @param pid the process
   * @return empty when no limit can be seen
   */
  public static List<MemoryLimit> memoryLimits(long pid) {
    return memoryLimits(CgroupMounts.ours(), groups(pid));
  }

  /**
   * Finds the limits.
   *
   * @param groups the content of {@code /proc/PID/cgroup}
   */
  static List<MemoryLimit> memoryLimits(CgroupMounts mounts, String groups) {
    List<MemoryLimit> limits = new ArrayList<>();
    for (Path each : unified(mounts, groups)) {
      MemoryLimit.unified(each).ifPresent(limits::add);
    }
    for (Path each : legacy(mounts, groups, "memory")) {
      MemoryLimit.legacy(each).ifPresent(limits::add);
    }
    return limits;
  }

  /**
   * Returns how much more memory a process can use before the limit of a group makes the kernel
   * swap, or kill a process.
   *
   * @param pid the process
   * @return bytes, not counting page cache; empty when no limit can be seen
   */
  public static OptionalLong memoryRoom(long pid) {
    return memoryLimits(pid).stream().mapToLong(MemoryLimit::room).min();
  }

  /**
   * Returns how many processors the quotas of the groups of a process and of the groups above allow
   * it.
   *
   * @param pid the process
   * @return such as 1.5; empty when no quota can be seen
   */
  public static OptionalDouble processors(long pid) {
    return processors(CgroupMounts.ours(), groups(pid));
  }

  static OptionalDouble processors(CgroupMounts mounts, String groups) {
    List<Double> quotas = new ArrayList<>();
    for (Path each : unified(mounts, groups)) {
      quota(text(each, "cpu.max")).ifPresent(quotas::add);
    }
    for (Path each : legacy(mounts, groups, "cpu")) {
      quota(text(each, "cpu.cfs_quota_us") + " " + text(each, "cpu.cfs_period_us"))
          .ifPresent(quotas::add);
    }
    return quotas.stream().mapToDouble(Double::doubleValue).min();
  }

  /** Divides {@code 150000 100000}; version 2 has {@code max} for no quota, version 1 has -1. */
  private static OptionalDouble quota(String text) {
    String[] words = text.strip().split(" ");
    return words.length < 2 || words[0].equals("max") || words[0].startsWith("-")
        ? OptionalDouble.empty()
        : OptionalDouble.of(Double.parseDouble(words[0]) / Double.parseDouble(words[1]));
  }

  private static String groups(long pid) {
    return ProcFs.read(pid, "cgroup").orElse("");
  }

  private static List<Path> unified(CgroupMounts mounts, String groups) {
    return groups
        .lines()
        .filter(line -> line.startsWith(UNIFIED))
        .map(line -> mounts.unifiedUpwards(line.substring(UNIFIED.length())))
        .findFirst()
        .orElse(List.of());
  }

  /** Finds the line {@code 4:memory:/job}. */
  private static List<Path> legacy(CgroupMounts mounts, String groups, String controller) {
    return groups
        .lines()
        .map(line -> line.split(":", 3))
        .filter(
            parts -> parts.length == 3 && Arrays.asList(parts[1].split(",")).contains(controller))
        .map(parts -> mounts.legacyUpwards(controller, parts[2]))
        .findFirst()
        .orElse(List.of());
  }

  private static String text(Path group, String file) {
    try {
      return Files.readString(group.resolve(file)).strip();
    } catch (IOException noSuchControllerHere) {
      return "";
    }
  }
}
