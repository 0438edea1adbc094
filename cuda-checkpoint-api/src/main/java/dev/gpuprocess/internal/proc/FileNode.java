package dev.gpuprocess.internal.proc;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.Optional;

/**
 * The result of {@code stat} for a file.
 *
 * @param device the file system it is on
 * @param inode its number there
 * @param mode type and permissions
 * @param links how many names it has; 0 when it was removed and is still open
 * @param bytes its length
 * @param number the device number, if it is a device
 */
public record FileNode(long device, long inode, int mode, int links, long bytes, long number) {

  private static final int TYPE = 0170000;
  private static final int CHARACTER = 0020000;
  private static final int BLOCK = 0060000;
  private static final int REGULAR = 0100000;

  /**
   * Examines a file, following links such as {@code /proc/PID/fd/N}.
   *
   * @param path any path
   * @return empty when it is gone or permission is missing
   */
  public static Optional<FileNode> at(Path path) {
    try {
      Map<String, Object> stat = Files.readAttributes(path, "unix:dev,ino,mode,nlink,size,rdev");
      return Optional.of(
          new FileNode(
              number(stat, "dev"),
              number(stat, "ino"),
              (int) number(stat, "mode"),
              (int) number(stat, "nlink"),
              number(stat, "size"),
              number(stat, "rdev")));
    } catch (IOException goneOrForbidden) {
      return Optional.empty();
    }
  }

  private static long number(Map<String, Object> stat, String name) {
    return stat.get(name) instanceof Number value ? value.longValue() : 0;
  }

  /**
   * Tells whether it is a regular file.
   *
   * @return its type
   */
  public boolean isRegular() {
    return (mode & TYPE) == REGULAR;
  }

  /**
   * Tells whether it is a character device.
   *
   * @return its type
   */
  public boolean isCharacterDevice() {
    return (mode & TYPE) == CHARACTER;
  }

  /**
   * Tells whether it is a block device.
   *
   * @return its type
   */
  public boolean isBlockDevice() {
    return (mode & TYPE) == BLOCK;
  }

  /**
   * The kind of the device.
   *
   * @return the major number
   */
  public int major() {
    return (int) ((number >> 8 & 0xfff) | (number >> 32 & ~0xfff));
  }

  /**
   * The device among those of its kind.
   *
   * @return the minor number
   */
  public int minor() {
    return (int) ((number & 0xff) | (number >> 12 & ~0xff));
  }
}
