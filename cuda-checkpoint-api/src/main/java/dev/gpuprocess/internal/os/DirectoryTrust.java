package dev.gpuprocess.internal.os;

import java.io.IOException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;

/**
 * Tells whether a directory is ours alone, and will be: nobody else may write in it, and nobody
 * else may put another one in its place, which who may write in a directory above it can.
 */
public final class DirectoryTrust {

  private DirectoryTrust() {}

  public static boolean isOurs(Path directory) {
    try {
      require(directory);
      return true;
    } catch (IOException notOurs) {
      return false;
    }
  }

  /**
   * Returns when it is a directory of ours.
   *
   * @throws java.nio.file.NoSuchFileException when there is nothing
   * @throws FileSystemException says whose it is, and what to do
   */
  public static void require(Path directory) throws IOException {
    Path path = directory.toAbsolutePath();
    Ownership found = Ownership.of(path);
    if (Files.isSymbolicLink(path)) {
      throw refused(
          path, "is a symbolic link, which is not followed: remove it, or name what it leads to");
    }
    if (!Files.isDirectory(path, LinkOption.NOFOLLOW_LINKS)) {
      throw refused(path, "is not a directory: remove it");
    }
    int us = CurrentUser.get().effectiveUid();
    if (found.uid() != us) {
      throw refused(
          path,
          "belongs to user %s and not to us (%s)"
              .formatted(
                  Integer.toUnsignedString(found.uid()), Integer.toUnsignedString(us)));
    }
    if (found.isWritableByOthers()) {
      throw refused(path, "can be written by others: chmod go-w " + path);
    }
    requireSafeAbove(path);
    requireSafeAbove(path.toRealPath());
  }

  /**
   * The same for one that is to be made: returns when nobody else can take its place.
   *
   * @return the directory that is there already and in which the next one will be made
   */
  public static Path requirePlaceFor(Path directory) throws IOException {
    Path there = directory.toAbsolutePath().normalize();
    while (there.getParent() != null && Files.notExists(there, LinkOption.NOFOLLOW_LINKS)) {
      there = there.getParent();
    }
    if (!Files.isDirectory(there)) {
      throw refused(there, "is not a directory");
    }
    requireSafeAbove(there.resolve("new"));
    requireSafeAbove(there.toRealPath().resolve("new"));
    return there;
  }

  /** Links on the way count as well as what they lead to. */
  private static void requireSafeAbove(Path path) throws IOException {
    for (Path above = path.getParent(); above != null; above = above.getParent()) {
      requireTrusted(above, Ownership.of(above));
      Ownership directory = Ownership.ofTarget(above);
      requireTrusted(above, directory);
      if (directory.letsOthersReplace()) {
        throw refused(
            above, "can be written by others, who could replace what is in it: chmod go-w " + above);
      }
    }
  }

  private static void requireTrusted(Path above, Ownership found) throws IOException {
    if (!found.isTrusted()) {
      throw refused(
          above,
          "belongs to user %s, who could replace what is in it"
              .formatted(Integer.toUnsignedString(found.uid())));
    }
  }

  private static FileSystemException refused(Path path, String reason) {
    return new FileSystemException(path.toString(), null, reason);
  }
}
