package dev.gpuprocess.internal.linux;

import java.io.IOException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;

/**
 * Checks that no other user can write to a directory, or replace it by writing to a directory above
 * it.
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
   * Checks that only this user can write to a directory or replace it.
   *
   * @throws java.nio.file.NoSuchFileException when it does not exist
   * @throws FileSystemException with the reason and the remedy when another user can
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
              .formatted(Integer.toUnsignedString(found.uid()), Integer.toUnsignedString(us)));
    }
    if (found.isWritableByOthers()) {
      throw refused(path, "can be written by others: chmod go-w " + path);
    }
    requireSafeAbove(path);
    requireSafeAbove(path.toRealPath());
  }

  /**
   * Checks that only root and this user can write to a file or replace it.
   *
   * @throws FileSystemException with the reason and the remedy when another user can
   */
  public static void requireFile(Path file) throws IOException {
    Path path = file.toAbsolutePath();
    Ownership found = Ownership.of(path);
    if (!Files.isRegularFile(path, LinkOption.NOFOLLOW_LINKS)) {
      throw refused(path, "is not a regular file");
    }
    if (!found.isTrusted()) {
      throw refused(
          path,
          "belongs to user %s, and not to root or to us"
              .formatted(Integer.toUnsignedString(found.uid())));
    }
    if (found.isWritableByOthers()) {
      throw refused(path, "can be written by others: chmod go-w " + path);
    }
    requireSafeAbove(path);
    requireSafeAbove(path.toRealPath());
  }

  /**
   * Checks that a directory can be created that no other user can replace.
   *
   * @return the nearest existing directory above it
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

  /** Checks the links on the path as well as their targets. */
  private static void requireSafeAbove(Path path) throws IOException {
    for (Path above = path.getParent(); above != null; above = above.getParent()) {
      requireTrusted(above, Ownership.of(above));
      Ownership directory = Ownership.ofTarget(above);
      requireTrusted(above, directory);
      if (directory.letsOthersReplace()) {
        throw refused(
            above,
            "can be written by others, who could replace what is in it: chmod go-w " + above);
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
