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

/** Checks whether an image can be written to a directory. */
public final class ImageTarget {

  private ImageTarget() {}

  /**
   * Checks whether an image can be written, and changes nothing.
   *
   * @param directory where it would be
   * @param process the process to dump, named in exceptions
   * @param expectedBytes how much space it would need
   * @return the free space, in bytes
   * @throws ImageDirectoryException when the directory cannot be used
   * @throws DiskFullException when the file system has too little space
   */
  public static long check(Path directory, ProcessIdentity process, long expectedBytes) {
    int pid = process.pid();
    try {
      Path nearest = ImagePlace.nearest(directory);
      if (!Files.isDirectory(nearest) || !Files.isWritable(nearest)) {
        String why = Files.isDirectory(nearest) ? "cannot be written" : "is not a directory";
        throw unusable(
            pid, "no image can be made at %s: %s %s".formatted(directory, nearest, why), null);
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

  /** Refuses a path where something exists already, except an empty directory. */
  static void requireUnused(PinnedDirectory parent, Path target, int pid) throws IOException {
    Path there = parent.path().resolve(target.getFileName());
    if (!Files.exists(there, LinkOption.NOFOLLOW_LINKS)) {
      return;
    }
    if (!Files.isDirectory(there, LinkOption.NOFOLLOW_LINKS)) {
      throw unusable(pid, target + " is not a directory: name one that does not exist yet", null);
    }
    if (!DurableFiles.list(there).isEmpty()) {
      throw unusable(
          pid,
          target + " is not empty, and an image never replaces anything: name another directory",
          null);
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
          "%s has %s MiB free and the image of process %s needs about %s MiB: free some space or use another file system"
              .formatted(parent.name(), room >> 20, pid, expectedBytes >> 20),
          Failure.of("dump", pid));
    }
  }

  static ImageDirectoryException unusable(int pid, String why, @Nullable Throwable cause) {
    return new ImageDirectoryException(why, Failure.of("dump", pid), cause);
  }

  /** A full disk has a type of its own wherever it is detected. */
  static ImageException failed(int pid, IOException cause, ImageException otherwise) {
    String reason =
        String.valueOf(
            cause instanceof FileSystemException failed ? failed.getReason() : cause.getMessage());
    return Descriptors.saysFull(reason)
        ? new DiskFullException(
            otherwise.getMessage() + ": free some space or use another file system",
            Failure.of("dump", pid),
            cause)
        : otherwise;
  }
}
