package dev.gpuprocess.internal.linux;

import dev.gpuprocess.internal.text.NativePath;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Path;
import java.util.Set;

/**
 * What the kernel says of the file system of a file ({@code statfs}).
 *
 * @param isInMemory whether its files are in memory alone: tmpfs and ramfs. One on top of them, as
 *     overlayfs, is not known to be
 * @param room what users other than root may still write, in bytes; {@link Long#MAX_VALUE} where
 *     nothing limits it
 */
public record FileSystemStatus(boolean isInMemory, long room) {

  private static final int SIZE_OF_STATFS = 120;

  /** {@code TMPFS_MAGIC}, {@code RAMFS_MAGIC}. A hugetlbfs takes no {@code write}, so no image. */
  private static final Set<Integer> IN_MEMORY = Set.of(0x01021994, 0x858458f6);

  /**
   * Asks about the file system that a file is on.
   *
   * @throws IOException when the file is not there or cannot be reached
   */
  public static FileSystemStatus of(Path file) throws IOException {
    byte[] status = new byte[SIZE_OF_STATFS];
    if (Libc.LIBRARY.statfs(NativePath.cString(file), status) != 0) {
      throw Libc.failed(file, "cannot be asked for its file system", Libc.errno());
    }
    return of(status);
  }

  /**
   * Returns whether a file is on a file system of a type.
   *
   * @param magic the magic number of the type
   * @return false also when the file cannot be reached
   */
  public static boolean isOfType(Path file, long magic) {
    byte[] status = new byte[SIZE_OF_STATFS];
    return Libc.LIBRARY.statfs(NativePath.cString(file), status) == 0
        && ByteBuffer.wrap(status).order(ByteOrder.nativeOrder()).getLong(0) == magic;
  }

  /** The same of an open file; a file system that does not answer is taken for one on a disk. */
  static FileSystemStatus of(int descriptor) {
    byte[] status = new byte[SIZE_OF_STATFS];
    if (Libc.LIBRARY.fstatfs(descriptor, status) != 0) {
      return new FileSystemStatus(false, Long.MAX_VALUE);
    }
    return of(status);
  }

  private static FileSystemStatus of(byte[] status) {
    ByteBuffer values = ByteBuffer.wrap(status).order(ByteOrder.nativeOrder());
    int type = (int) values.getLong(0);
    long blocks = values.getLong(16);
    return new FileSystemStatus(
        IN_MEMORY.contains(type),
        blocks == 0 ? Long.MAX_VALUE : values.getLong(32) * values.getLong(8));
  }
}
