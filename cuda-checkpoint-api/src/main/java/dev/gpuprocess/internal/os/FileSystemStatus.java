package dev.gpuprocess.internal.os;

import dev.gpuprocess.internal.jnr.BlockFunctions;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * What the kernel says of the file system of an open file ({@code fstatfs}).
 *
 * @param isInMemory whether its files are in memory alone: tmpfs and ramfs. One on top of them, as
 *     overlayfs, is not known to be
 * @param room what users other than root may still write, in bytes; {@link Long#MAX_VALUE} where
 *     nothing limits it
 */
record FileSystemStatus(boolean isInMemory, long room) {

  private static final int SIZE_OF_STATFS = 120;
  private static final int TMPFS_MAGIC = 0x01021994;
  private static final int RAMFS_MAGIC = 0x858458f6;

  /** Asks; a file system that does not answer is taken for one on a disk. */
  static FileSystemStatus of(BlockFunctions library, int descriptor) {
    byte[] status = new byte[SIZE_OF_STATFS];
    if (library.fstatfs(descriptor, status) != 0) {
      return new FileSystemStatus(false, Long.MAX_VALUE);
    }
    ByteBuffer values = ByteBuffer.wrap(status).order(ByteOrder.nativeOrder());
    int type = (int) values.getLong(0);
    long blocks = values.getLong(16);
    return new FileSystemStatus(
        type == TMPFS_MAGIC || type == RAMFS_MAGIC,
        blocks == 0 ? Long.MAX_VALUE : values.getLong(32) * values.getLong(8));
  }
}
