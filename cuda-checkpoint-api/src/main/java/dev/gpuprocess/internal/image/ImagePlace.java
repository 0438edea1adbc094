package dev.gpuprocess.internal.image;

import dev.gpuprocess.internal.linux.Descriptors;
import dev.gpuprocess.internal.linux.UntrustedPaths;
import java.io.IOException;
import java.nio.file.AccessDeniedException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.Objects;

/**
 * Resolves the directory of a future image. A path with {@code ..} or links is resolved by the
 * kernel's rules and not by its text, so that partial images are found in the right directory.
 * Links of other users are not followed.
 */
public final class ImagePlace {

  private ImagePlace() {}

  /**
   * Resolves the path, and creates the directories above it. They are on the disk when this
   * returns.
   *
   * @param directory the caller's path
   * @return the path in the real directory above; a link at the path itself is not followed
   * @throws IOException when the directory above does not exist and cannot be created
   */
  public static Path of(Path directory) throws IOException {
    Path place = named(directory);
    Path parent = parent(place);
    if (!Files.isDirectory(parent)) {
      Path nearest = nearest(directory);
      if (!Files.isDirectory(nearest)) {
        throw new FileSystemException(nearest.toString(), null, "is not a directory");
      }
      make(parent);
    }
    return UntrustedPaths.ours().real(parent).resolve(Objects.requireNonNull(place.getFileName()));
  }

  private static void make(Path directory) throws IOException {
    if (!Files.isDirectory(directory)) {
      Path above = parent(directory);
      make(above);
      String name = String.valueOf(directory.getFileName());
      if (!name.equals("..") && !name.equals(".")) {
        UntrustedPaths paths = UntrustedPaths.ours();
        Path real = paths.real(above);
        boolean unused = paths.makeDirectory(real.resolve(directory.getFileName()));
        Descriptors.sync(real);
      }
    }
  }

  /**
   * Finds the nearest existing directory above a path.
   *
   * @param directory the caller's path
   * @return an existing directory, or a file that blocks the path
   * @throws IOException when the path leads nowhere
   */
  public static Path nearest(Path directory) throws IOException {
    Path above = parent(named(directory));
    while (!Files.exists(above, LinkOption.NOFOLLOW_LINKS)) {
      above = parent(above);
    }
    return Files.isDirectory(above) ? UntrustedPaths.ours().real(above) : above.toRealPath();
  }

  /** Returns whether an existing directory is the parent of the image. */
  static boolean isDirectlyIn(Path directory, Path nearest) throws IOException {
    Path parent = parent(named(directory));
    return Files.isDirectory(parent) && parent.toRealPath().equals(nearest);
  }

  /** Replaces a last {@code .} or {@code ..} by a real name. */
  private static Path named(Path directory) throws IOException {
    Path absolute = directory.toAbsolutePath();
    String last = String.valueOf(absolute.getFileName());
    if (!last.equals(".") && !last.equals("..")) {
      return absolute;
    }
    return Files.isDirectory(absolute)
        ? UntrustedPaths.ours().real(absolute)
        : absolute.normalize();
  }

  private static Path parent(Path path) throws IOException {
    Path parent = path.getParent();
    if (parent == null) {
      throw new FileSystemException(path.toString(), null, "is not a name for an image");
    }
    return parent;
  }

  /**
   * Describes an error for an operator.
   *
   * @return such as {@code /a/file is not a directory}
   */
  public static String reason(IOException e) {
    if (e instanceof FileSystemException failed && failed.getReason() != null) {
      return failed.getFile() + " " + failed.getReason();
    }
    if (e instanceof AccessDeniedException denied) {
      return denied.getFile() + " may not be used by this user";
    }
    return e instanceof NoSuchFileException missing
        ? missing.getFile() + " does not exist"
        : e.toString();
  }
}
