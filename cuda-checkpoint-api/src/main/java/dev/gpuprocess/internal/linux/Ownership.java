package dev.gpuprocess.internal.linux;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.ImageException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;

/**
 * Who could have written a file. The mode covers access control lists too: with one, the group bits
 * are the most that the list grants to anybody.
 *
 * @param uid the owner
 * @param mode the permission bits
 */
public record Ownership(int uid, int mode) {

  private static final int WRITABLE_BY_OTHERS = 0022;
  private static final int WRITABLE_BY_ALL = 0002;
  private static final int OPEN_TO_OTHERS = 0077;
  private static final int STICKY = 01000;

  /** Of a directory or file; links are not followed. */
  public static Ownership of(Path file) throws IOException {
    return of(file, LinkOption.NOFOLLOW_LINKS);
  }

  /** Of a pinned directory. */
  public static Ownership of(PinnedDirectory directory) throws IOException {
    return ofTarget(directory.path());
  }

  /** Of what a path leads to, through links. */
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

  /** Whether only root and the user of this JVM can write to it. */
  public boolean isOurs() throws IOException {
    return isTrusted() && !isWritableByOthers();
  }

  /** Whether users other than the owner can write to it. */
  public boolean isWritableByOthers() {
    return (mode & WRITABLE_BY_OTHERS) != 0;
  }

  /** Whether all users can write to it. */
  public boolean isWritableByAll() {
    return (mode & WRITABLE_BY_ALL) != 0;
  }

  /** Whether only their owners can replace the files in this directory. */
  public boolean isSticky() {
    return (mode & STICKY) != 0;
  }

  /** Whether users other than its owner can replace what is in this directory. */
  boolean letsOthersReplace() {
    return isWritableByOthers() && !isSticky();
  }

  /** Whether this JVM may remove it as well: what root made, only root removes. */
  public boolean isOursToRemove() throws IOException {
    int user = CurrentUser.get().effectiveUid();
    return isOurs() && (user == 0 || user == uid);
  }

  /** Whether only root and the user of this JVM can read it. */
  public boolean isSecret() throws IOException {
    return isTrusted() && (mode & OPEN_TO_OTHERS) == 0;
  }

  /** Whether only root can write to it, it is root's, and this JVM's user is somebody else. */
  public boolean isRootsAndNotOurs() throws IOException {
    return uid == 0 && CurrentUser.get().effectiveUid() != 0 && !isWritableByOthers();
  }

  /** Whether it belongs to root or to the user of this JVM. */
  boolean isTrusted() throws IOException {
    return uid == 0 || uid == CurrentUser.get().effectiveUid();
  }

  /**
   * Refuses what others could have written: restoring runs what is in the image with our rights.
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
