package dev.gpuprocess.internal.os;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.ImageNotTrustedException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.util.Locale;

/**
 * Who could have written a file. The mode tells of access lists too: with one, its group bits are
 * the most that the list gives to anybody.
 *
 * @param uid the owner
 * @param mode the permission bits
 */
public record Ownership(int uid, int mode) {

  private static final int WRITABLE_BY_OTHERS = 0022;
  private static final int OPEN_TO_OTHERS = 0077;

  /** Of a directory or file; a link as itself. */
  public static Ownership of(Path file) throws IOException {
    return of(file, LinkOption.NOFOLLOW_LINKS);
  }

  /** Of a directory that is held. */
  public static Ownership of(PinnedDirectory directory) throws IOException {
    return of(directory.path(), new LinkOption[0]);
  }

  private static Ownership of(Path file, LinkOption... options) throws IOException {
    return new Ownership(
        number(Files.getAttribute(file, "unix:uid", options)),
        number(Files.getAttribute(file, "unix:mode", options)) & 07777);
  }

  private static int number(Object attribute) {
    return ((Number) attribute).intValue();
  }

  /** Whether only root and the user of this JVM can write to it. */
  public boolean isOurs() throws IOException {
    return isTrusted() && (mode & WRITABLE_BY_OTHERS) == 0;
  }

  /** The same, and it is the user's own: what root made, only root can remove. */
  public boolean isOursToRemove() throws IOException {
    int user = effectiveUid();
    return isOurs() && (user == 0 || user == uid);
  }

  /** Whether only root and the user of this JVM can so much as read it. */
  public boolean isSecret() throws IOException {
    return isTrusted() && (mode & OPEN_TO_OTHERS) == 0;
  }

  /** Whether it is root's, who alone can write to it, and this JVM's user is somebody else. */
  public boolean isRootsAndNotOurs() throws IOException {
    return uid == 0 && effectiveUid() != 0 && (mode & WRITABLE_BY_OTHERS) == 0;
  }

  private boolean isTrusted() throws IOException {
    return uid == 0 || uid == effectiveUid();
  }

  /** Restoring runs what is in the image with our rights, so nobody else may have a hand in it. */
  public void requireOurs(Path shown) throws IOException {
    if (!isOurs()) {
      throw new ImageNotTrustedException(
          "%s (%s) could have been written by others, and restoring it would run their code as us: look where it comes from, then copy the image as root"
              .formatted(shown, this),
          Failure.of("open", 0));
    }
  }

  private static int effectiveUid() throws IOException {
    for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
      if (line.startsWith("Uid:")) {
        return Integer.parseUnsignedInt(line.split("\\s+")[2]);
      }
    }
    throw new IOException("/proc/self/status does not tell the user of this process");
  }

  @Override
  public String toString() {
    return String.format(Locale.ROOT, "uid %s, mode %04o", Integer.toUnsignedString(uid), mode);
  }
}
