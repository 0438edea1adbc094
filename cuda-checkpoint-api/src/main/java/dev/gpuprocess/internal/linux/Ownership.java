package dev.gpuprocess.internal.linux;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.ImageException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;

/**
 * The owner and the permissions of a file, which say which users could have written it. The mode
 * covers access control lists too: with a list, the group bits are the maximum that it grants to
 * any user.
 *
 * @param uid the owner
 * @param mode the permission bits
 */
public record Ownership(int uid, int mode) {

  private static final int WRITABLE_BY_OTHERS = 0022;
  private static final int WRITABLE_BY_ALL = 0002;
  private static final int OPEN_TO_OTHERS = 0077;
  private static final int STICKY = 01000;

  /** Reads those of a file or directory; links are not followed. */
  public static Ownership of(Path file) throws IOException {
    return of(file, LinkOption.NOFOLLOW_LINKS);
  }

  /** Reads those of a directory; empty if it is none, or does not exist. */
  public static Optional<Ownership> ofDirectory(Path directory) throws IOException {
    try {
      return Files.isDirectory(directory, LinkOption.NOFOLLOW_LINKS)
          ? Optional.of(of(directory))
          : Optional.empty();
    } catch (NoSuchFileException removedMeanwhile) {
      return Optional.empty();
    }
  }

  /** Reads those of a pinned directory. */
  public static Ownership of(PinnedDirectory directory) throws IOException {
    return ofTarget(directory.path());
  }

  /** Reads those of the target of a path, through links. */
  static Ownership ofTarget(Path path) throws IOException {
    return of(path, new LinkOption[0]);
  }

  private static Ownership of(Path file, LinkOption... options) throws IOException {
    Map<String, Object> found = Files.readAttributes(file, "unix:uid,mode", options);
    return new Ownership(number(found, "uid"), number(found, "mode") & 07777);
  }

  private static int number(Map<String, Object> attributes, String name) {
    return ((Number) Objects.requireNonNull(attributes.get(name))).intValue();
  }

  /** Returns whether only root and the user of this JVM can write to it. */
  public boolean isOurs() throws IOException {
    return isTrusted() && !isWritableByOthers();
  }

  /** Returns whether users other than the owner can write to it. */
  public boolean isWritableByOthers() {
    return (mode & WRITABLE_BY_OTHERS) != 0;
  }

  /** Returns whether all users can write to it. */
  public boolean isWritableByAll() {
    return (mode & WRITABLE_BY_ALL) != 0;
  }

  /** Returns whether only their owners can replace the files in this directory. */
  public boolean isSticky() {
    return (mode & STICKY) != 0;
  }

  /** Returns whether users other than its owner can replace files in this directory. */
  boolean letsOthersReplace() {
    return isWritableByOthers() && !isSticky();
  }

  /** Returns whether this JVM may remove it as well: only root removes what root created. */
  public boolean isOursToRemove() throws IOException {
    int user = CurrentUser.get().effectiveUid();
    return isOurs() && (user == 0 || user == uid);
  }

  /** Returns whether only root and the user of this JVM can read it. */
  public boolean isSecret() throws IOException {
    return isTrusted() && (mode & OPEN_TO_OTHERS) == 0;
  }

  /** Returns whether it is root's, only root can write to it, and this JVM is not root's. */
  public boolean isRootsAndNotOurs() throws IOException {
    return uid == 0 && CurrentUser.get().effectiveUid() != 0 && !isWritableByOthers();
  }

  /** Returns whether it belongs to root or to the user of this JVM. */
  boolean isTrusted() throws IOException {
    return uid == 0 || uid == CurrentUser.get().effectiveUid();
  }

  /**
   * Refuses a file that other users could have written: a restore runs the code in an image with
   * the rights of this JVM.
   */
  public void requireOurs(Path shown) throws IOException {
    if (!isOurs()) {
      throw new ImageException(
          ImageException.Reason.NOT_TRUSTED,
          "%s (%s) could have been written by others, and a restore would run their code with any user id: do not restore it, and do not make a copy that belongs to this user; dump the process again into a directory that only this user can write to"
              .formatted(shown, this),
          Failure.of("open", 0));
    }
  }

  @Override
  public String toString() {
    return String.format(Locale.ROOT, "uid %s, mode %04o", Integer.toUnsignedString(uid), mode);
  }
}
