package dev.gpuprocess.criu.internal.preflight;

import dev.gpuprocess.error.UnsupportedResource.Kind;
import dev.gpuprocess.internal.proc.FileNode;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.options.CriuSwitch;
import dev.gpuprocess.options.DumpOptions;
import java.io.IOException;
import java.nio.file.Files;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * File locks and leases that the tree holds. {@code /proc/locks} tells which files are locked; a
 * descriptor's {@code fdinfo} tells whether it holds the lock.
 */
final class LockCheck {

  /** {@code 1: POSIX ADVISORY WRITE 31711 fe:00:2154509 0 EOF}. */
  private static final Pattern LOCKED_INODE = Pattern.compile(" [0-9a-f]+:[0-9a-f]+:(\\d+) ");

  /** The kernel leaves the rest empty if we may not see it. */
  private static final Pattern HELD = Pattern.compile("(?md)^lock:\\s+\\d+:\\s*(\\w+)");

  private final FindingCollector findings;
  private final Set<Long> lockedInodes;

  LockCheck(FindingCollector findings, DumpOptions options) {
    this.findings = findings;
    this.lockedInodes = options.criu().has(CriuSwitch.FILE_LOCKS) ? Set.of() : lockedInodes();
  }

  private static Set<Long> lockedInodes() {
    Set<Long> inodes = new TreeSet<>();
    try {
      Matcher locks = LOCKED_INODE.matcher(Files.readString(ProcFs.kernel("locks")));
      while (locks.find()) {
        inodes.add(Long.valueOf(locks.group(1)));
      }
    } catch (IOException kernelWithoutLocks) {
      return Set.of();
    }
    return inodes;
  }

  void look(ResourceRef place, String target, FileNode node) {
    if (lockedInodes.contains(node.inode())) {
      place
          .fdinfo(HELD)
          .ifPresent(
              kind ->
                  findings.needs(
                      Kind.FILE_LOCK,
                      place,
                      target,
                      "is locked (%s) by this tree".formatted(kind),
                      "file-locks"));
    }
  }
}
