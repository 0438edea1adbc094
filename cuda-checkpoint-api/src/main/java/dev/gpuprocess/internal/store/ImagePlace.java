package dev.gpuprocess.internal.store;

import java.io.IOException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;

/**
 * Where an image will be, as the kernel sees it. A path with {@code ..} or links in it means what
 * the kernel makes of it and not what its text looks like, so that whoever looks for half images
 * beside it looks in the right directory.
 */
public final class ImagePlace {

  private ImagePlace() {}

  /**
   * Finds the place, and makes the directories that lead to it.
   *
   * @param directory as the caller names it
   * @return its name in the real directory above it; the name itself is not followed
   * @throws IOException when there is no such directory and none can be made
   */
  public static Path of(Path directory) throws IOException {
    Path place = named(directory);
    Path parent = parent(place);
    if (!Files.isDirectory(parent)) {
      Path nearest = nearest(directory);
      if (!Files.isDirectory(nearest)) {
        throw new FileSystemException(nearest.toString(), null, "is not a directory");
      }
      Files.createDirectories(parent);
    }
    return parent.toRealPath().resolve(name(place));
  }

  /**
   * Finds the nearest directory on the way to the place that is there already.
   *
   * @param directory as the caller names it
   * @return an existing directory, or what is in the way
   * @throws IOException when the path leads nowhere
   */
  public static Path nearest(Path directory) throws IOException {
    Path above = parent(named(directory));
    while (!Files.exists(above, LinkOption.NOFOLLOW_LINKS)) {
      above = parent(above);
    }
    return above.toRealPath();
  }

  /** Whether nothing has to be made on the way from an existing directory to the place. */
  static boolean isDirectlyIn(Path directory, Path nearest) throws IOException {
    Path parent = parent(named(directory));
    return Files.isDirectory(parent) && parent.toRealPath().equals(nearest);
  }

  /** With a last name that is one, which {@code .} and {@code ..} are not. */
  private static Path named(Path directory) throws IOException {
    Path absolute = directory.toAbsolutePath();
    String last = String.valueOf(absolute.getFileName());
    if (!last.equals(".") && !last.equals("..")) {
      return absolute;
    }
    return Files.exists(absolute) ? absolute.toRealPath() : absolute.normalize();
  }

  private static Path parent(Path path) throws IOException {
    Path parent = path.getParent();
    if (parent == null) {
      throw new FileSystemException(path.toString(), null, "is no name for an image");
    }
    return parent;
  }

  private static Path name(Path path) throws IOException {
    Path name = path.getFileName();
    if (name == null) {
      throw new FileSystemException(path.toString(), null, "is no name for an image");
    }
    return name;
  }

  /**
   * Says why there is no such place.
   *
   * @param e what {@link #of} threw
   * @return such as {@code /a/file is not a directory}
   */
  public static String reason(IOException e) {
    if (e instanceof FileSystemException failed && failed.getReason() != null) {
      return failed.getFile() + " " + failed.getReason();
    }
    return e instanceof NoSuchFileException missing
        ? missing.getFile() + " does not exist"
        : e.toString();
  }
}
