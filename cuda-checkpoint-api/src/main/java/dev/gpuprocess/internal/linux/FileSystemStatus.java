package dev.gpuprocess.internal.linux;

import dev.gpuprocess.internal.text.NativePath;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Path;
import java.util.Set;

/**
 * The type of a file system and its free space ({@code statfs}).
 *
 * @param isInMemory whether its files are in memory alone, as on tmpfs and ramfs; false for an
 *     overlay of such file systems
 * @param room how many bytes users other than root can write; {@link Long#MAX_VALUE} without limit
 * @param files how many files can be created; {@link Long#MAX_VALUE} where inodes are made as
 *     needed
 */
public record FileSystemStatus(boolean isInMemory, long room, long files) {

  // struct statfs of 64-bit Linux
  private static final int BYTES = 120;
  private static final int TYPE = 0;
  private static final int BLOCK_SIZE = 8;
  private static final int BLOCKS = 16;
  private static final int AVAILABLE_BLOCKS = 32;
  private static final int FILES = 40;
  private static final int FREE_FILES = 48;
  private static final int FRAGMENT_SIZE = 72;

  /** {@code TMPFS_MAGIC}, {@code RAMFS_MAGIC}. A hugetlbfs takes no {@code write}, so no image. */
  private static final Set<Integer> IN_MEMORY = Set.of(0x01021994, 0x858458f6);

  /**
   * Reads the status of the file system that a file is on.
   *
   * @throws IOException when the file does not exist or cannot be reached
   */
  public static FileSystemStatus of(Path file) throws IOException {
    byte[] status = new byte[BYTES];
    if (Libc.LIBRARY.statfs(NativePath.cString(file), status) != 0) {
      throw Libc.failed(file, "its file system cannot be read", Libc.errno());
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
    byte[] status = new byte[BYTES];
    return Libc.LIBRARY.statfs(NativePath.cString(file), status) == 0
        && values(status).getLong(TYPE) == magic;
  }

  /**
   * Reads the status of the file system of an open file. A file system that does not answer counts
   * as one on a disk.
   */
  static FileSystemStatus of(int descriptor) {
    byte[] status = new byte[BYTES];
    return Libc.LIBRARY.fstatfs(descriptor, status) == 0
        ? of(status)
        : new FileSystemStatus(false, Long.MAX_VALUE, Long.MAX_VALUE);
  }

  private static FileSystemStatus of(byte[] status) {
    ByteBuffer values = values(status);
    long fragment = values.getLong(FRAGMENT_SIZE);
    long unit = fragment == 0 ? values.getLong(BLOCK_SIZE) : fragment;
    return new FileSystemStatus(
        IN_MEMORY.contains((int) values.getLong(TYPE)),
        values.getLong(BLOCKS) == 0 ? Long.MAX_VALUE : values.getLong(AVAILABLE_BLOCKS) * unit,
        values.getLong(FILES) == 0 ? Long.MAX_VALUE : values.getLong(FREE_FILES));
  }

  private static ByteBuffer values(byte[] status) {
    return ByteBuffer.wrap(status).order(ByteOrder.nativeOrder());
  }
}
