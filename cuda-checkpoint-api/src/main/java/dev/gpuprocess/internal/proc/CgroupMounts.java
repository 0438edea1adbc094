package dev.gpuprocess.internal.proc;

import dev.gpuprocess.internal.text.NativePath;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.regex.Pattern;

/**
 * The mount points of the control group hierarchies that this process sees ({@code
 * /proc/self/mountinfo}).
 */
final class CgroupMounts {

  private static final Path MOUNTS = Path.of("/proc/self/mountinfo");
  private static final Pattern ESCAPED = Pattern.compile("\\\\([0-7]{3})");
  private static final int ROOT = 3;
  private static final int PLACE = 4;
  private static final String UNIFIED = "";

  private final List<Mount> mounts = new ArrayList<>();

  private record Mount(String controllers, String root, Path place) {

    boolean has(String controller) {
      return controller.equals(UNIFIED)
          ? controllers.equals(UNIFIED)
          : Arrays.asList(controllers.split(",")).contains(controller);
    }

    /** Both the root and the group are as seen from our own cgroup namespace. */
    Optional<Path> directory(String group) {
      String above = root.equals("/") ? "" : root;
      if (!group.equals(root) && !group.startsWith(above + "/")) {
        return Optional.empty();
      }
      String below = group.equals(root) ? "" : group.substring(above.length() + 1);
      return Arrays.asList(below.split("/")).contains("..")
          ? Optional.empty()
          : Optional.of(place.resolve(NativePath.of(below)));
    }
  }

  private CgroupMounts() {}

  /** The mounts of this process, as of now. */
  static CgroupMounts ours() {
    CgroupMounts mounts = new CgroupMounts();
    ProcFile.lines(MOUNTS, mounts::add);
    return mounts;
  }

  /** The mounts that lines of {@code mountinfo} describe. */
  static CgroupMounts of(List<String> lines) {
    CgroupMounts mounts = new CgroupMounts();
    lines.forEach(mounts::add);
    return mounts;
  }

  /** {@code 41 31 0:38 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw}, and tags before -. */
  private void add(String line) {
    int dash = line.indexOf(" - cgroup");
    if (dash < 0) {
      return;
    }
    String[] mount = line.substring(0, dash).split(" ");
    String[] type = line.substring(dash + " - ".length()).split(" ");
    if (mount.length <= PLACE || type.length < 3) {
      return;
    }
    String controllers = type[0].equals("cgroup2") ? UNIFIED : type[2];
    mounts.add(new Mount(controllers, text(mount[ROOT]), NativePath.of(text(mount[PLACE]))));
  }

  /** A field of {@code mountinfo}, in which the kernel escapes white space. */
  static String text(String escaped) {
    return ESCAPED
        .matcher(escaped)
        .replaceAll(
            code ->
                java.util.regex.Matcher.quoteReplacement(
                    Character.toString((char) Integer.parseInt(code.group(1), 8))));
  }

  /** The mount point of cgroup version 2; empty where it is not mounted. */
  Optional<Path> unified() {
    return mounts.stream().filter(mount -> mount.has(UNIFIED)).map(Mount::place).findFirst();
  }

  /**
   * Finds the directory of a group of version 2.
   *
   * @param group as in {@code /proc/PID/cgroup}
   * @return empty when no mount shows it
   */
  Optional<Path> unified(String group) {
    return find(UNIFIED, group);
  }

  /** The same for the freezer of version 1. */
  Optional<Path> freezer(String group) {
    return find("freezer", group);
  }

  private Optional<Path> find(String controller, String group) {
    return mounts.stream()
        .filter(mount -> mount.has(controller))
        .flatMap(mount -> mount.directory(group).stream())
        .findFirst();
  }
}
