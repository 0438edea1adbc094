package dev.gpuprocess.internal.proc;

import dev.gpuprocess.internal.text.NativePath;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.function.Predicate;
import java.util.stream.Stream;

/**
 * The mounts of control group hierarchies that a process sees.
 *
 * @param mounts all its mounts
 */
record CgroupMounts(List<Mount> mounts) {

  /** Returns the mounts of this process, as of now. */
  static CgroupMounts ours() {
    return new CgroupMounts(Mount.ours());
  }

  /**
   * Finds the directory of a group of version 2.
   *
   * @param group as in {@code /proc/PID/cgroup}
   * @return empty when no mount shows it
   */
  Optional<Path> unified(String group) {
    return groupsUpwards(CgroupMounts::isUnified, group).stream().findFirst();
  }

  /**
   * Finds the directory of a group of version 1.
   *
   * @param controller such as {@code freezer} or {@code memory}
   * @param group as in {@code /proc/PID/cgroup}
   * @return empty when no mount shows it
   */
  Optional<Path> legacy(String controller, String group) {
    return groupsUpwards(mount -> isLegacy(mount, controller), group).stream().findFirst();
  }

  /** Returns the directories of a group of version 2 and of the groups above that a mount shows. */
  List<Path> unifiedUpwards(String group) {
    return groupsUpwards(CgroupMounts::isUnified, group);
  }

  /** Returns the directories of a group of version 1 and of the groups above. */
  List<Path> legacyUpwards(String controller, String group) {
    return groupsUpwards(mount -> isLegacy(mount, controller), group);
  }

  private List<Path> groupsUpwards(Predicate<Mount> hierarchy, String group) {
    for (Mount mount : mounts) {
      Optional<Path> directory = hierarchy.test(mount) ? directory(mount, group) : Optional.empty();
      if (directory.isPresent()) {
        return Stream.iterate(
                directory.get(), at -> at != null && at.startsWith(mount.point()), Path::getParent)
            .toList();
      }
    }
    return List.of();
  }

  private static boolean isLegacy(Mount mount, String controller) {
    return mount.type().equals("cgroup")
        && Arrays.asList(mount.options().split(",")).contains(controller);
  }

  private static boolean isUnified(Mount mount) {
    return mount.type().equals("cgroup2");
  }

  /** Both the root of the mount and the group are as seen from our own cgroup namespace. */
  private static Optional<Path> directory(Mount mount, String group) {
    String root = mount.root();
    String above = root.equals("/") ? "" : root;
    if (!group.equals(root) && !group.startsWith(above + "/")) {
      return Optional.empty();
    }
    String below = group.equals(root) ? "" : group.substring(above.length() + 1);
    return Arrays.asList(below.split("/")).contains("..")
        ? Optional.empty()
        : Optional.of(mount.point().resolve(NativePath.of(below)));
  }
}
