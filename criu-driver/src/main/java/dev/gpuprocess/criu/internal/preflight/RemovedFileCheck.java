package dev.gpuprocess.criu.internal.preflight;

import dev.gpuprocess.criu.internal.linux.Posix;
import dev.gpuprocess.error.UnsupportedResource.Kind;
import dev.gpuprocess.internal.proc.FileNode;
import dev.gpuprocess.options.CriuSwitch;
import dev.gpuprocess.options.DumpOptions;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;

/** Files that have been removed but are still open or mapped. */
final class RemovedFileCheck {

  private static final String REMOVED = " (deleted)";

  private final FindingCollector findings;
  private final DumpOptions options;

  RemovedFileCheck(FindingCollector findings, DumpOptions options) {
    this.findings = findings;
    this.options = options;
  }

  /**
   * Checks a file.
   *
   * @param link a path that leads to it, whatever its name refers to by now
   */
  void look(ResourceRef place, String target, FileNode node, Path link) {
    if (target.startsWith("/proc/") || target.startsWith("/memfd:") || isExternal(node)) {
      return;
    }
    if (node.links() == 0) {
      lookAtSize(place, name(target), node, link);
    } else if (!options.criu().has(CriuSwitch.LINK_REMAP)
        && target.endsWith(REMOVED)
        && place
            .seenByProcess(target)
            .filter(path -> Files.exists(path, LinkOption.NOFOLLOW_LINKS))
            .isEmpty()) {
      findings.needs(
          Kind.RENAMED_FILE,
          place,
          name(target),
          "was removed under this name and has another one that CRIU cannot know",
          "link-remap");
    }
  }

  /** The mount is not compared: what matters is that this file has been declared external. */
  boolean isExternal(FileNode node) {
    String end = ":" + Long.toHexString(node.inode()) + "]";
    return options.criu().get(CriuSwitch.EXTERNAL).stream()
        .anyMatch(each -> each.text().startsWith("file[") && each.text().endsWith(end));
  }

  private static String name(String target) {
    return target.endsWith(REMOVED)
        ? target.substring(0, target.length() - REMOVED.length())
        : target;
  }

  /** CRIU counts the blocks on disk: a hole counts nothing, and the last block counts in full. */
  private void lookAtSize(ResourceRef place, String name, FileNode node, Path link) {
    if (node.bytes() <= options.criu().get(CriuSwitch.GHOST_LIMIT) / 2) {
      return;
    }
    // Only here, as loading jnr-posix takes a third of a second.
    long bytes = Posix.allocatedBytes(link);
    if (bytes > options.criu().get(CriuSwitch.GHOST_LIMIT)) {
      findings.needs(
          Kind.REMOVED_FILE,
          place,
          name,
          "was removed, and its %s bytes are more than CRIU may copy into the image"
              .formatted(bytes),
          "ghost-limit=" + bytes);
    }
  }
}
