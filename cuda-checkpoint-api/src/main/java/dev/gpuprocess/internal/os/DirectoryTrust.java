package dev.gpuprocess.internal.os;

import dev.gpuprocess.internal.proc.ProcFs;
import java.io.IOException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * Tells whether a directory is ours alone, and will be: nobody else may write in it, and nobody
 * else may put another one in its place, which who may write in a directory above it can.
 */
final class DirectoryTrust {

  private static final int TYPE = 0170000;
  private static final int DIRECTORY = 0040000;
  private static final int LINK = 0120000;
  private static final int STICKY = 01000;
  private static final int WRITABLE_BY_OTHERS = 0022;

  private DirectoryTrust() {}

  static boolean isOurs(Path directory) {
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
  static void require(Path directory) throws IOException {
    Path path = directory.toAbsolutePath();
    Node node = Node.of(path, LinkOption.NOFOLLOW_LINKS);
    if (node.type() == LINK) {
      throw refused(
          path, "is a symbolic link, which is not followed: remove it, or name what it leads to");
    }
    if (node.type() != DIRECTORY) {
      throw refused(path, "is not a directory: remove it");
    }
    int us = effectiveUid();
    if (node.uid() != us) {
      throw refused(
          path,
          "belongs to user %s and not to us (%s)"
              .formatted(Integer.toUnsignedString(node.uid()), Integer.toUnsignedString(us)));
    }
    if ((node.mode() & WRITABLE_BY_OTHERS) != 0) {
      throw refused(path, "can be written by others: chmod go-w " + path);
    }
    requireSafeAbove(path, us);
    requireSafeAbove(path.toRealPath(), us);
  }

  /**
   * The same for one that is to be made: returns when nobody else can take its place.
   *
   * @return the directory that is there already and in which the next one will be made
   */
  static Path requirePlaceFor(Path directory) throws IOException {
    Path there = directory.toAbsolutePath().normalize();
    while (there.getParent() != null && Files.notExists(there, LinkOption.NOFOLLOW_LINKS)) {
      there = there.getParent();
    }
    if (!Files.isDirectory(there)) {
      throw refused(there, "is not a directory");
    }
    int us = effectiveUid();
    requireSafeAbove(there.resolve("new"), us);
    requireSafeAbove(there.toRealPath().resolve("new"), us);
    return there;
  }

  /** Links on the way count as well as what they lead to. */
  private static void requireSafeAbove(Path path, int us) throws IOException {
    for (Path above = path.getParent(); above != null; above = above.getParent()) {
      requireTrusted(above, Node.of(above, LinkOption.NOFOLLOW_LINKS), us);
      Node directory = Node.of(above);
      requireTrusted(above, directory, us);
      if ((directory.mode() & WRITABLE_BY_OTHERS) != 0 && (directory.mode() & STICKY) == 0) {
        throw refused(
            above,
            "can be written by others, who could put something else in the place of what is in it:"
                + " chmod go-w "
                + above);
      }
    }
  }

  private static void requireTrusted(Path above, Node node, int us) throws FileSystemException {
    if (node.uid() != us && node.uid() != 0) {
      throw refused(
          above,
          "belongs to user %s, who could put something else in the place of what is in it"
              .formatted(Integer.toUnsignedString(node.uid())));
    }
  }

  private static FileSystemException refused(Path path, String reason) {
    return new FileSystemException(path.toString(), null, reason);
  }

  private static volatile @Nullable Integer ourUid;

  private static int effectiveUid() throws IOException {
    Integer known = ourUid;
    if (known == null) {
      String[] ids =
          ProcFs.status(ProcessHandle.current().pid()).getOrDefault("Uid", "").split("\\s+");
      if (ids.length < 2) {
        throw new IOException("/proc/self/status does not tell the user of this process");
      }
      known = Integer.parseUnsignedInt(ids[1]);
      ourUid = known;
    }
    return known;
  }

  private record Node(int uid, int mode) {

    static Node of(Path path, LinkOption... options) throws IOException {
      Map<String, Object> values = Files.readAttributes(path, "unix:uid,mode", options);
      return new Node(number(values, "uid"), number(values, "mode"));
    }

    private static int number(Map<String, Object> values, String name) {
      return values.get(name) instanceof Number value ? value.intValue() : -1;
    }

    int type() {
      return mode & TYPE;
    }
  }
}
