package dev.gpuprocess.internal.image;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.internal.linux.Descriptors;
import dev.gpuprocess.internal.linux.DurableFiles;
import dev.gpuprocess.internal.linux.PinnedDirectory;
import dev.gpuprocess.internal.text.NativePath;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * The place of a new image.
 *
 * @param parent the directory above it, pinned
 * @param path the image, in the real directory above it
 */
public record ImageTarget(PinnedDirectory parent, Path path) {

  /** NAME_MAX of the kernel, in bytes. */
  private static final int LONGEST_NAME = 255;

  /**
   * Checks whether an image can be written. Changes nothing.
   *
   * @param directory the directory of the image
   * @param process the process to dump, named in exceptions
   * @param expectedBytes the expected size of the image
   * @return the free space, in bytes
   * @throws ImageException with reason DIRECTORY when the directory cannot be used
   * @throws ImageException with reason DISK_FULL when the file system has too little space
   */
  public static long check(Path directory, ProcessIdentity process, long expectedBytes) {
    Failure failure = Failure.of("dump", process.pid());
    try {
      requireShortName(directory, failure);
      Path nearest = ImagePlace.nearest(directory);
      if (!Files.isDirectory(nearest) || !Files.isWritable(nearest)) {
        String why = Files.isDirectory(nearest) ? "cannot be written" : "is not a directory";
        throw unusable(
            failure, "no image can be made at %s: %s %s".formatted(directory, nearest, why), null);
      }
      try (PinnedDirectory held = PinnedDirectory.open(nearest)) {
        if (ImagePlace.isDirectlyIn(directory, nearest)) {
          requireUnused(held, ImagePlace.of(directory), failure);
        }
        requireSpace(held, expectedBytes, failure);
        return held.path().toFile().getUsableSpace();
      }
    } catch (IOException e) {
      throw unusable(
          failure, "no image can be made at %s: %s".formatted(directory, ImagePlace.reason(e)), e);
    }
  }

  /**
   * Pins the directory above a future image, and checks that the image can be written there.
   *
   * @param directory the directory of the image; missing directories above it are created
   * @param expectedBytes the expected size of the image
   * @param failure for exceptions
   * @throws ImageException with reason DIRECTORY when the directory cannot be used
   * @throws ImageException with reason DISK_FULL when the file system has too little space
   */
  static ImageTarget open(Path directory, long expectedBytes, Failure failure) {
    PinnedDirectory parent;
    Path path;
    try {
      path = ImagePlace.of(directory);
      parent = PinnedDirectory.open(Objects.requireNonNull(path.getParent()));
    } catch (IOException e) {
      String why = "no image can be written to %s: %s".formatted(directory, ImagePlace.reason(e));
      throw failed(failure, ImageException.Reason.DIRECTORY, why, e);
    }
    try {
      requireUnused(parent, path, failure);
      requireSpace(parent, expectedBytes, failure);
      return new ImageTarget(parent, path);
    } catch (IOException e) {
      parent.close();
      throw unwritable(parent, e, failure);
    } catch (RuntimeException | Error e) {
      parent.close();
      throw e;
    }
  }

  /** An image gets its name last, when the process has been dumped. */
  private static void requireShortName(Path directory, Failure failure) {
    int bytes = NativePath.name(directory.toAbsolutePath()).getBytes(StandardCharsets.UTF_8).length;
    if (bytes > LONGEST_NAME) {
      throw unusable(
          failure,
          "the name of the image has %s bytes, and a name has at most %s: name another directory"
              .formatted(bytes, LONGEST_NAME),
          null);
    }
  }

  /** Returns the exception for a failure to write in the directory above the image. */
  static ImageException unwritable(PinnedDirectory parent, IOException e, Failure failure) {
    String why = "no image can be written in " + parent.name() + ": " + parent.explain(e);
    return failed(failure, ImageException.Reason.DIRECTORY, why, e);
  }

  /** Refuses a path that exists, except an empty directory. */
  static void requireUnused(PinnedDirectory parent, Path target, Failure failure)
      throws IOException {
    Path there = parent.path().resolve(target.getFileName());
    if (!Files.exists(there, LinkOption.NOFOLLOW_LINKS)) {
      return;
    }
    if (!Files.isDirectory(there, LinkOption.NOFOLLOW_LINKS)) {
      throw unusable(
          failure, target + " is not a directory: name a path that does not exist", null);
    }
    if (!DurableFiles.list(there).isEmpty()) {
      throw unusable(
          failure,
          target + " is not empty, and an image never replaces anything: name another directory",
          null);
    }
    if (!Files.getAttribute(there, "unix:dev")
        .equals(Files.getAttribute(parent.path(), "unix:dev"))) {
      throw unusable(
          failure, "a file system is mounted on " + target + ": name a directory in it", null);
    }
  }

  static void requireSpace(PinnedDirectory parent, long expectedBytes, Failure failure) {
    long free = parent.path().toFile().getUsableSpace();
    if (free < expectedBytes && parent.path().toFile().getTotalSpace() == 0) {
      throw unusable(
          failure,
          parent.name() + " is on a file system that stores nothing, such as /proc: choose another",
          null);
    }
    if (free < expectedBytes) {
      throw new ImageException(
          ImageException.Reason.DISK_FULL,
          "%s has %s MiB free and the image of process %s needs about %s MiB: free some space or use another file system"
              .formatted(parent.name(), free >> 20, failure.pid(), expectedBytes >> 20),
          failure);
    }
  }

  static ImageException unusable(Failure failure, String why, @Nullable Throwable cause) {
    return new ImageException(ImageException.Reason.DIRECTORY, why, failure, cause);
  }

  /** Returns an exception of the given reason, or of DISK_FULL if the cause is a full disk. */
  public static ImageException failed(
      Failure failure, ImageException.Reason otherwise, String why, IOException cause) {
    String reason =
        String.valueOf(
            cause instanceof FileSystemException failed ? failed.getReason() : cause.getMessage());
    return Descriptors.saysFull(reason)
        ? new ImageException(
            ImageException.Reason.DISK_FULL,
            why + ": free some space or use another file system",
            failure,
            cause)
        : new ImageException(otherwise, why, failure, cause);
  }
}
