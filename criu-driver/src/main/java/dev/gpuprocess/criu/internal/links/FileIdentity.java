package dev.gpuprocess.criu.internal.links;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.Map;
import java.util.Optional;

/**
 * The identity and attributes of a regular file, independent of its name.
 *
 * @param device its file system
 * @param inode its inode in that file system
 * @param mode permission bits
 */
record FileIdentity(long device, long inode, int mode, int owner, int group, long size) {

  private static final int PERMISSIONS = 07777;

  /**
   * The file with this name, without following links; empty if there is none, or if it is not a
   * regular file.
   */
  static Optional<FileIdentity> of(Path path) throws IOException {
    try {
      Map<String, Object> found =
          Files.readAttributes(
              path, "unix:dev,ino,mode,uid,gid,size,isRegularFile", LinkOption.NOFOLLOW_LINKS);
      return Boolean.TRUE.equals(found.get("isRegularFile"))
          ? Optional.of(
              new FileIdentity(
                  number(found, "dev"),
                  number(found, "ino"),
                  (int) number(found, "mode") & PERMISSIONS,
                  (int) number(found, "uid"),
                  (int) number(found, "gid"),
                  number(found, "size")))
          : Optional.empty();
    } catch (NoSuchFileException e) {
      return Optional.empty();
    }
  }

  private static long number(Map<String, Object> attributes, String name) {
    return ((Number) attributes.getOrDefault(name, 0)).longValue();
  }

  boolean isSameFile(FileIdentity other) {
    return device == other.device && inode == other.inode;
  }
}
