package dev.gpuprocess.internal.proc;

import dev.gpuprocess.internal.text.NativePath;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.OptionalDouble;
import java.util.OptionalLong;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/** The control group of a process (version 2). */
public final class ControlGroup {

  private static final Pattern UNIFIED = Pattern.compile("(?md)^0::(/.*)$");
  private static final Pattern CACHE = Pattern.compile("(?md)^(?:in)?active_file (\\d+)$");

  private ControlGroup() {}

  /**
   * Returns how much more memory a process can use before the limit of its group, or of a group
   * above, makes the kernel kill a process.
   *
   * @param pid the process
   * @return bytes, not counting page cache; empty when no limit can be seen
   */
  public static OptionalLong memoryRoom(long pid) {
    return memoryRoom(directories(pid));
  }

  static OptionalLong memoryRoom(Path root, String group) {
    return memoryRoom(upwards(root, root.resolve(NativePath.of(group.substring(1)))));
  }

  private static OptionalLong memoryRoom(List<Path> directories) {
    return directories.stream().flatMapToLong(directory -> ownRoom(directory).stream()).min();
  }

  /** Returns the directories of its group and the groups above; none where they are not visible. */
  private static List<Path> directories(long pid) {
    Matcher group = UNIFIED.matcher(ProcFs.read(pid, "cgroup").orElse(""));
    if (!group.find()) {
      return List.of();
    }
    CgroupMounts mounts = CgroupMounts.ours();
    Optional<Path> root = mounts.unified();
    Optional<Path> directory = mounts.unified(group.group(1));
    return root.isPresent() && directory.isPresent()
        ? upwards(root.get(), directory.get())
        : List.of();
  }

  private static List<Path> upwards(Path root, Path directory) {
    return Stream.iterate(directory, at -> at != null && at.startsWith(root), Path::getParent)
        .toList();
  }

  /**
   * Returns how many processors the quotas of a process's group and of the groups above allow it.
   *
   * @param pid the process
   * @return such as 1.5; empty when no quota can be seen
   */
  public static OptionalDouble processors(long pid) {
    return directories(pid).stream().flatMapToDouble(directory -> quota(directory).stream()).min();
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
