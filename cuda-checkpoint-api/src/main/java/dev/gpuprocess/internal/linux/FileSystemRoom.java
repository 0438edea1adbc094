package dev.gpuprocess.internal.linux;

import dev.gpuprocess.internal.text.NativePath;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Path;

/**
 * What a file system has left.
 *
 * @param bytes for users other than root
 * @param files how many more; {@link Long#MAX_VALUE} where the file system makes inodes as needed
 */
public record FileSystemRoom(long bytes, long files) {

  private static final int SIZE_OF_STATVFS = 112;

  /**
   * Asks the kernel ({@code statvfs}).
   *
   * @throws IOException when the directory is not there or cannot be reached
   */
  public static FileSystemRoom of(Path directory) throws IOException {
    byte[] status = new byte[SIZE_OF_STATVFS];
    if (Libc.LIBRARY.statvfs(NativePath.cString(directory), status) != 0) {
      throw Libc.failed(directory, "cannot be asked for its free space", Libc.errno());
    }
    ByteBuffer values = ByteBuffer.wrap(status).order(ByteOrder.nativeOrder());
    long unit = values.getLong(8);
    return new FileSystemRoom(
        unit * values.getLong(32), values.getLong(40) == 0 ? Long.MAX_VALUE : values.getLong(56));
  }
}
