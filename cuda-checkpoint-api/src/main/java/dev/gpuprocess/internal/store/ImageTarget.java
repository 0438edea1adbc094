package dev.gpuprocess.internal.store;

import dev.gpuprocess.error.DiskFullException;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.ImageDirectoryException;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.internal.os.Descriptors;
import dev.gpuprocess.internal.os.DurableFiles;
import dev.gpuprocess.internal.os.PinnedDirectory;
import dev.gpuprocess.process.ProcessIdentity;
import java.io.IOException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import org.jspecify.annotations.Nullable;

/** What must be true of a directory before an image can be made there. */
public final class ImageTarget {

  private ImageTarget() {}

  /**
   * Says whether an image can be made, and makes nothing.
   *
   * @param directory where it would be
   * @param process for whom; named in exceptions
   * @param expectedBytes how much room it would need
   * @return the room that there is, in bytes
   * @throws ImageDirectoryException when the directory cannot be used
   * @throws DiskFullException when the file system has less room than expected
   */
  public static long check(Path directory, ProcessIdentity process, long expectedBytes) {
    int pid = process.pid();
    try {
      Path nearest = ImagePlace.nearest(directory);
      if (!Files.isDirectory(nearest)) {
        throw unusable(
            pid,
            "no image can be made at " + directory + ": " + nearest + " is not a directory",
            null);
      }
      if (!Files.isWritable(nearest)) {
        throw unusable(
            pid,
            "no image can be made at " + directory + ": " + nearest + " cannot be written",
            null);
      }
      try (PinnedDirectory held = PinnedDirectory.open(nearest)) {
        if (ImagePlace.isDirectlyIn(directory, nearest)) {
          requireUnused(held, ImagePlace.of(directory), pid);
        }
        requireRoom(held, expectedBytes, pid);
        return held.path().toFile().getUsableSpace();
      }
    } catch (IOException e) {
      throw unusable(
          pid, "no image can be made at %s: %s".formatted(directory, ImagePlace.reason(e)), e);
    }
  }

  /** Refuses a place where something is already, except an empty directory. */
  static void requireUnused(PinnedDirectory parent, Path target, int pid)
      throws IOException {
    Path there = parent.path().resolve(target.getFileName());
    if (!Files.exists(there, LinkOption.NOFOLLOW_LINKS)) {
      return;
    }
    if (!Files.isDirectory(there, LinkOption.NOFOLLOW_LINKS)) {
      throw unusable(pid, target + " is not a directory: name one that does not exist yet", null);
    }
    if (!DurableFiles.list(there).isEmpty()) {
      throw unusable(pid, target + " is not empty: an image never replaces anything", null);
    }
    if (!Files.getAttribute(there, "unix:dev")
        .equals(Files.getAttribute(parent.path(), "unix:dev"))) {
      throw unusable(
          pid, "a file system is mounted on " + target + ": name a directory in it", null);
    }
  }

  static void requireRoom(PinnedDirectory parent, long expectedBytes, int pid) {
    long room = parent.path().toFile().getUsableSpace();
    if (room < expectedBytes && parent.path().toFile().getTotalSpace() == 0) {
      throw unusable(
          pid,
          parent.name() + " is on a file system that stores nothing, such as /proc: choose another",
          null);
    }
    if (room < expectedBytes) {
      throw new DiskFullException(
          "%s has room for %s MiB and the image of process %s needs about %s MiB: free some or use another file system"
              .formatted(parent.name(), room >> 20, pid, expectedBytes >> 20),
          Failure.of("dump", pid));
    }
  }

  static ImageDirectoryException unusable(int pid, String why, @Nullable Throwable cause) {
    return new ImageDirectoryException(why, Failure.of("dump", pid), cause);
  }

  /** A full disk has a type of its own wherever it is met. */
  static ImageException failed(int pid, IOException cause, ImageException otherwise) {
    String reason =
        String.valueOf(
            cause instanceof FileSystemException failed ? failed.getReason() : cause.getMessage());
    return Descriptors.saysFull(reason)
        ? new DiskFullException(
            otherwise.getMessage() + ": free some room or use another file system",
            Failure.of("dump", pid),
            cause)
        : otherwise;
  }
}
