package dev.gpuprocess.internal.os;

import dev.gpuprocess.internal.text.NativePath;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Path;
import java.util.Set;

/** Tells file systems whose files are in memory alone from those with a disk. */
public final class MemoryFileSystem {

  private static final int SIZE_OF_STATFS = 120;

  /** {@code TMPFS_MAGIC}, {@code RAMFS_MAGIC}, {@code HUGETLBFS_MAGIC}. */
  private static final Set<Integer> IN_MEMORY = Set.of(0x01021994, 0x858458f6, 0x958458f6);

  private MemoryFileSystem() {}

  /**
   * Whether a file is on one ({@code statfs}).
   *
   * @throws IOException when the file is not there or cannot be reached
   */
  public static boolean has(Path file) throws IOException {
    byte[] status = new byte[SIZE_OF_STATFS];
    if (Libc.LIBRARY.statfs(NativePath.cString(file), status) != 0) {
      throw Libc.failed(file, "cannot be asked for its file system", Libc.errno());
    }
    long type = ByteBuffer.wrap(status).order(ByteOrder.nativeOrder()).getLong();
    return IN_MEMORY.contains((int) type);
  }
}
