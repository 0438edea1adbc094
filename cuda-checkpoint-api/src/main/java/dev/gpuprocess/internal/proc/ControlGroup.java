package dev.gpuprocess.internal.proc;

import dev.gpuprocess.internal.text.NativePath;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;
import java.util.OptionalDouble;
import java.util.OptionalLong;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** The control group of a process (version 2). */
public final class ControlGroup {

  private static final Pattern UNIFIED = Pattern.compile("(?md)^0::(/.*)$");
  private static final Pattern CACHE = Pattern.compile("(?md)^(?:in)?active_file (\\d+)$");

  private ControlGroup() {}

  /**
   * How much more memory a process can use before the limit of its group, or of a group above,
   * makes the kernel kill a process.
   *
   * @param pid the process
   * @return bytes, not counting page cache; empty when no limit can be seen
   */
  public static OptionalLong memoryRoom(long pid) {
    Matcher group = UNIFIED.matcher(ProcFs.read(pid, "cgroup").orElse(""));
    if (!group.find()) {
      return OptionalLong.empty();
    }
    CgroupMounts mounts = CgroupMounts.ours();
    Optional<Path> root = mounts.unified();
    Optional<Path> directory = mounts.unified(group.group(1));
    return root.isPresent() && directory.isPresent()
        ? memoryRoom(root.get(), "/" + root.get().relativize(directory.get()))
        : OptionalLong.empty();
  }

  /**
   * How many processors the quotas of a process's group, and of the groups above, allow it.
   *
   * @param pid the process
   * @return such as 1.5; empty when no quota can be seen
   */
  public static OptionalDouble processors(long pid) {
    Matcher group = UNIFIED.matcher(ProcFs.read(pid, "cgroup").orElse(""));
    CgroupMounts mounts = CgroupMounts.ours();
    Optional<Path> root = mounts.unified();
    Optional<Path> directory = group.find() ? mounts.unified(group.group(1)) : Optional.empty();
    OptionalDouble least = OptionalDouble.empty();
    Path at = directory.orElse(null);
    while (root.isPresent() && at != null && at.startsWith(root.get())) {
      OptionalDouble quota = quota(at);
      if (quota.isPresent() && (least.isEmpty() || quota.getAsDouble() < least.getAsDouble())) {
        least = quota;
      }
      at = at.getParent();
    }
    return least;
  }

  /** Of {@code cpu.max}: {@code 150000 100000}, or {@code max 100000}. */
  private static OptionalDouble quota(Path directory) {
    try {
      String[] words = Files.readString(directory.resolve("cpu.max")).strip().split(" ");
      return words.length < 2 || words[0].equals("max")
          ? OptionalDouble.empty()
          : OptionalDouble.of(Double.parseDouble(words[0]) / Double.parseDouble(words[1]));
    } catch (IOException noSuchControllerHere) {
      return OptionalDouble.empty();
    }
  }

  static OptionalLong memoryRoom(Path root, String group) {
    OptionalLong least = OptionalLong.empty();
    Path directory = root.resolve(NativePath.of(group.substring(1)));
    while (directory != null && directory.startsWith(root)) {
      OptionalLong room = ownRoom(directory);
      if (room.isPresent() && (least.isEmpty() || room.getAsLong() < least.getAsLong())) {
        least = room;
      }
      directory = directory.getParent();
    }
    return least;
  }

  private static OptionalLong ownRoom(Path directory) {
    try {
      String limit = Files.readString(directory.resolve("memory.max")).strip();
      if (limit.equals("max")) {
        return OptionalLong.empty();
      }
      long used = Long.parseLong(Files.readString(directory.resolve("memory.current")).strip());
      long cached =
          CACHE
              .matcher(Files.readString(directory.resolve("memory.stat")))
              .results()
              .mapToLong(line -> Long.parseLong(line.group(1)))
              .sum();
      return OptionalLong.of(Long.parseLong(limit) - used + cached);
    } catch (IOException noSuchControllerHere) {
      return OptionalLong.empty();
    }
  }
}
