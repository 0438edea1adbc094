package dev.gpuprocess.internal.proc;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.util.Locale;
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
 * @param user the owner
 * @param group the group of the owner
 */
public record FileNode(
    long device, long inode, int mode, int links, long bytes, long number, int user, int group) {

  private static final int TYPE = 0170000;
  private static final int PERMISSIONS = 07777;
  private static final int SOCKET = 0140000;
  private static final int LINK = 0120000;
  private static final int DIRECTORY = 0040000;
  private static final int CHARACTER = 0020000;
  private static final int BLOCK = 0060000;
  private static final int REGULAR = 0100000;

  /**
   * Examines a file, following links such as {@code /proc/PID/fd/N}.
   *
   * @param path any path
   * @param options how to treat a link at the end of the path
   * @return empty when it is gone or permission is missing
   */
  public static Optional<FileNode> at(Path path, LinkOption... options) {
    try {
      return Optional.of(read(path, options));
    } catch (IOException goneOrForbidden) {
      return Optional.empty();
    }
  }

  /** As {@link #at}, but says why a file cannot be examined. */
  static FileNode read(Path path, LinkOption... options) throws IOException {
    Map<String, Object> stat =
        Files.readAttributes(path, "unix:dev,ino,mode,nlink,size,rdev,uid,gid", options);
    return new FileNode(
        number(stat, "dev"),
        number(stat, "ino"),
        (int) number(stat, "mode"),
        (int) number(stat, "nlink"),
        number(stat, "size"),
        number(stat, "rdev"),
        (int) number(stat, "uid"),
        (int) number(stat, "gid"));
  }

  /** Returns which file it is, in the form of {@code /proc/PID/maps}. */
  public FileId id() {
    return new FileId(String.format(Locale.ROOT, "%02x:%02x", major(device), minor(device)), inode);
  }

  private static long number(Map<String, Object> stat, String name) {
    return stat.get(name) instanceof Number value ? value.longValue() : 0;
  }

  /**
   * Examines an open file.
   *
   * @param descriptor a descriptor of this JVM
   * @throws IOException when it cannot be examined
   */
  public static FileNode of(int descriptor) throws IOException {
    return at(ProcFs.descriptor(descriptor))
        .orElseThrow(() -> new IOException("descriptor %s is not open".formatted(descriptor)));
  }

  /** Returns whether both are the same file. */
  public boolean isSameFile(FileNode other) {
    return device == other.device && inode == other.inode;
  }

  /** Returns the permission bits of the mode. */
  public int permissions() {
    return mode & PERMISSIONS;
  }

  /** Returns whether it is a symbolic link. */
  public boolean isLink() {
    return (mode & TYPE) == LINK;
  }

  /** Returns whether it is a directory. */
  public boolean isDirectory() {
    return (mode & TYPE) == DIRECTORY;
  }

  /** Returns whether it is a socket. */
  public boolean isSocket() {
    return (mode & TYPE) == SOCKET;
  }

  /** Returns whether it is a regular file. */
  public boolean isRegular() {
    return (mode & TYPE) == REGULAR;
  }

  /** Returns whether it is a character device. */
  public boolean isCharacterDevice() {
    return (mode & TYPE) == CHARACTER;
  }

  /** Returns whether it is a block device. */
  public boolean isBlockDevice() {
    return (mode & TYPE) == BLOCK;
  }

  /** Returns the major number of the device. */
  public int major() {
    return major(number);
  }

  /** Returns the minor number of the device. */
  public int minor() {
    return minor(number);
  }

  /** Returns the numbers of the file system as {@code mountinfo} has them, such as 254:0. */
  public String fileSystem() {
    return major(device) + ":" + minor(device);
  }

  private static int major(long number) {
    return (int) ((number >> 8 & 0xfff) | (number >> 32 & ~0xfff));
  }

  private static int minor(long number) {
    return (int) ((number & 0xff) | (number >> 12 & ~0xff));
  }
}
