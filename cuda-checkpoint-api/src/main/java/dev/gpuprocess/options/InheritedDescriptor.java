package dev.gpuprocess.options;

import java.nio.file.Path;
import org.jspecify.annotations.Nullable;

/**
 * A descriptor that a restored tree gets in place of one that it had (CRIU {@code inherit-fd}): an
 * end of another pipe, a log file elsewhere, a new terminal. Immutable. Made by naming first what
 * is replaced, then its replacement: {@code InheritedDescriptor.pipe(inode).by(descriptor)}.
 *
 * @param resource what is replaced, as CRIU reads it, such as {@code pipe:[4711]}
 * @param descriptor an open descriptor of this JVM by its number, -1 when it is a file
 * @param file a file to open, null when it is a descriptor
 */
public record InheritedDescriptor(String resource, int descriptor, @Nullable Path file) {

  /**
   * Checks that there is exactly one replacement.
   *
   * @throws IllegalArgumentException when there are two replacements or none
   */
  public InheritedDescriptor {
    if (resource.isEmpty() || (descriptor >= 0) == (file != null)) {
      throw new IllegalArgumentException(
          "needs a resource, and either an open descriptor or a file to open");
    }
  }

  /**
   * The resource that is replaced.
   *
   * @param text as CRIU reads it
   */
  public record Resource(String text) {

    /**
     * Replaces it by an open descriptor. It stays open here; the tree gets a copy.
     *
     * @param descriptor its number in this JVM
     * @return the replacement
     */
    public InheritedDescriptor by(int descriptor) {
      return new InheritedDescriptor(text, descriptor, null);
    }

    /**
     * Replaces it by a file, opened for reading and writing just before the restore.
     *
     * @param file an existing file, pipe or device
     * @return the replacement
     */
    public InheritedDescriptor by(Path file) {
      return new InheritedDescriptor(text, -1, file);
    }
  }

  /**
   * A pipe.
   *
   * @param inode as in {@code /proc/PID/fd/N -> pipe:[inode]} at the dump
   * @return what is replaced
   */
  public static Resource pipe(long inode) {
    return new Resource("pipe:[" + inode + "]");
  }

  /**
   * A UNIX socket.
   *
   * @param inode as in {@code /proc/PID/fd/N -> socket:[inode]} at the dump
   * @return what is replaced
   */
  public static Resource socket(long inode) {
    return new Resource("socket:[" + inode + "]");
  }

  /**
   * A terminal that was external at the dump.
   *
   * @param rdev {@code st_rdev} of it
   * @param dev {@code st_dev} of it
   * @return what is replaced
   */
  public static Resource terminal(long rdev, long dev) {
    return new Resource("tty[" + Long.toHexString(rdev) + ":" + Long.toHexString(dev) + "]");
  }

  /**
   * A file that was external at the dump.
   *
   * @param mountId {@code mnt_id} in {@code /proc/PID/fdinfo/N} at the dump
   * @param inode its inode number
   * @return what is replaced
   */
  public static Resource file(int mountId, long inode) {
    return new Resource("file[" + Long.toHexString(mountId) + ":" + Long.toHexString(inode) + "]");
  }

  /**
   * A file by its path.
   *
   * @param path absolute, as it was at the dump
   * @return what is replaced
   * @throws IllegalArgumentException when the path is not absolute
   */
  public static Resource file(Path path) {
    if (!path.isAbsolute()) {
      throw new IllegalArgumentException("the path must be absolute, not " + path);
    }
    return new Resource(path.toString().substring(1));
  }

  /**
   * A namespace that was external at the dump.
   *
   * @param name what the image calls it
   * @return what is replaced
   */
  public static Resource namespace(String name) {
    return new Resource(name);
  }
}
