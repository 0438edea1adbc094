package dev.gpuprocess.criu.internal.preflight;

import dev.gpuprocess.internal.proc.FileNode;
import dev.gpuprocess.internal.proc.Mount;
import dev.gpuprocess.internal.proc.Namespaces;
import dev.gpuprocess.internal.proc.Namespaces.Kind;
import dev.gpuprocess.internal.text.NativePath;
import java.nio.file.LinkOption;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.regex.Pattern;

/**
 * Open files that CRIU cannot open by their path at a restore: files of a mount that the tree does
 * not have, such as standard files that were opened before the mount namespace was made, and files
 * below the point of a later mount.
 */
final class MountCheck {

  private static final String REMOVED = " (deleted)";
  private static final Pattern MOUNT = Pattern.compile("(?m)^mnt_id:\\s*(\\d{1,9})$");

  private final FindingCollector findings;
  private final Set<Integer> mounts = new HashSet<>();

  /** Whether the tree has mounts of its own, so that files of other mounts can be in it. */
  private final boolean hasOwnMounts;

  MountCheck(FindingCollector findings, List<Integer> tree) {
    this.findings = findings;
    Set<Optional<String>> namespaces = new HashSet<>();
    for (int pid : tree) {
      if (namespaces.add(Namespaces.of(pid).get(Kind.MOUNT))) {
        mounts.addAll(Mount.ids(pid));
      }
    }
    this.hasOwnMounts =
        !tree.isEmpty() && Namespaces.of(tree.get(0)).differs(Kind.MOUNT, Namespaces.ours());
  }

  void look(ResourceRef place, String target, FileNode node) {
    if (target.endsWith(REMOVED) || target.startsWith("/memfd:")) {
      return;
    }
    boolean isSeen =
        place
            .seenByProcess(target)
            .flatMap(path -> FileNode.at(path, LinkOption.NOFOLLOW_LINKS))
            .filter(seen -> seen.device() == node.device() && seen.inode() == node.inode())
            .isPresent();
    if (isSeen && !hasOwnMounts) {
      return;
    }
    Optional<Integer> mount = place.fdinfo(MOUNT).map(Integer::valueOf);
    if (mount.isPresent() && !mounts.contains(mount.get())) {
      findings.problem(
          place,
          target,
          "is in a mount that the process does not have, because it was opened before the process got its mount namespace",
          "start the process with files that are opened in that namespace, as by: unshare --mount sh -c 'exec program > log'");
    } else if (!isSeen && isBelowAnotherMount(place, target, node)) {
      findings.problem(
          place,
          target,
          "is hidden by a later mount over its directory, so CRIU cannot open it by its path",
          "unmount that, or let the process close the file first");
    }
  }

  /** Returns whether the mount that has the path now is of another file system. */
  private static boolean isBelowAnotherMount(ResourceRef place, String target, FileNode node) {
    return Mount.of(place.pid()).stream()
        .filter(mount -> (target + "/").startsWith(NativePath.text(mount.point()) + "/"))
        .reduce((earlier, later) -> later)
        .filter(mount -> !mount.device().equals(node.fileSystem()))
        .isPresent();
  }
}
