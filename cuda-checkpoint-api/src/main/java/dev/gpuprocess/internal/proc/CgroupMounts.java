package dev.gpuprocess.internal.proc;

import dev.gpuprocess.internal.text.NativePath;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;

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

  /** Returns the mount point of cgroup version 2; empty where it is not mounted. */
  Optional<Path> unified() {
    return mounts.stream().filter(CgroupMounts::isUnified).map(Mount::point).findFirst();
  }

  /**
   * Finds the directory of a group of version 2.
   *
   * @param group as in {@code /proc/PID/cgroup}
   * @return empty when no mount shows it
   */
  Optional<Path> unified(String group) {
    return mounts.stream()
        .filter(CgroupMounts::isUnified)
        .flatMap(mount -> directory(mount, group).stream())
        .findFirst();
  }

  /** The same for the freezer of version 1. */
  Optional<Path> freezer(String group) {
    return mounts.stream()
        .filter(mount -> mount.type().equals("cgroup"))
        .filter(mount -> Arrays.asList(mount.options().split(",")).contains("freezer"))
        .flatMap(mount -> directory(mount, group).stream())
        .findFirst();
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
