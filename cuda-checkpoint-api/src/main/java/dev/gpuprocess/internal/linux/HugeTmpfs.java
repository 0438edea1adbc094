package dev.gpuprocess.internal.linux;

import dev.gpuprocess.internal.proc.Mount;
import dev.gpuprocess.internal.proc.Unreadable;
import dev.gpuprocess.internal.text.NativePath;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A tmpfs whose files are in huge pages: the library's own, which a JVM of root mounts when it is
 * first needed and leaves mounted; or {@code /dev/shm} if its files are in huge pages.
 */
public final class HugeTmpfs {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  private static final Path ABOVE = Path.of("/run/gpuprocess");

  /** The mount point of the library's tmpfs. */
  public static final Path OURS = ABOVE.resolve("memory");

  private static final Path SHARED = Path.of("/dev/shm");
  private static final String LOCK = "memory.lock";

  /** MS_NOSUID, MS_NODEV, MS_NOEXEC. */
  private static final long FLAGS = 2 | 4 | 8;

  /**
   * Some memory is left to the machine, also if a process writes to a file that it has kept open.
   */
  private static final String OPTIONS = "huge=always,mode=0700,size=95%";

  private HugeTmpfs() {}

  /** Finds or mounts one; empty if that is impossible. */
  public static synchronized Optional<Path> directory() {
    try {
      if (CurrentUser.isRoot()) {
        mount();
        DirectoryTrust.require(OURS);
        return Optional.of(OURS);
      }
    } catch (IOException e) {
      LOG.debug("no tmpfs at {}", OURS, e);
    }
    return isOne(SHARED) ? Optional.of(SHARED) : Optional.empty();
  }

  /** Finds a mounted one. */
  public static Optional<Path> present() {
    return Stream.of(OURS, SHARED).filter(HugeTmpfs::isOne).findFirst();
  }

  /** Returns whether this user can probably mount one. */
  public static boolean mayBeMounted() {
    return CurrentUser.isRoot();
  }

  private static void mount() throws IOException {
    if (isOne(OURS)) {
      return;
    }
    Path unused = DirectoryTrust.requirePlaceFor(OURS);
    for (Path directory : List.of(ABOVE, OURS)) {
      if (!Files.isDirectory(directory)) {
        DurableFiles.createDirectory(directory);
      }
    }
    LockedFile lock =
        LockedFile.tryLock(OURS.resolveSibling(LOCK))
            .orElseThrow(() -> new IOException("another JVM is mounting it"));
    try {
      if (!isOne(OURS)
          && Libc.LIBRARY.mount(
                  cString("gpuprocess"),
                  NativePath.cString(OURS),
                  cString("tmpfs"),
                  FLAGS,
                  cString(OPTIONS))
              != 0) {
        throw Libc.failed(OURS, "cannot be mounted as tmpfs", Libc.errno());
      }
    } finally {
      lock.release();
    }
  }

  private static byte[] cString(String text) {
    return (text + '\0').getBytes(StandardCharsets.US_ASCII);
  }

  /** Returns whether a tmpfs of huge pages is mounted at a directory. */
  static boolean isOne(Path directory) {
    return Unreadable.as(
        false,
        () ->
            Mount.ours().stream()
                // The last one covers those before it.
                .filter(mount -> mount.point().equals(directory))
                .reduce((first, second) -> second)
                .filter(mount -> mount.type().equals("tmpfs"))
                .filter(mount -> mount.options().contains("huge="))
                .filter(mount -> !mount.options().contains("huge=never"))
                .isPresent());
  }
}
