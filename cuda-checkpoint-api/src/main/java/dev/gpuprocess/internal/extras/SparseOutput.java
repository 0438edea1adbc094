package dev.gpuprocess.internal.extras;

import java.io.IOException;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Set;

/** Writes a new file of mode 0600, with holes for the parts that are zero. Not thread-safe. */
final class SparseOutput extends OutputStream {

  private final FileChannel channel;
  private long position;
  private boolean endsInHole;

  SparseOutput(Path file) throws IOException {
    channel =
        FileChannel.open(
            file,
            Set.of(StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE),
            PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------")));
  }

  @Override
  public void write(int one) throws IOException {
    write(new byte[] {(byte) one}, 0, 1);
  }

  @Override
  public void write(byte[] part, int offset, int length) throws IOException {
    endsInHole = isZero(part, offset, length);
    if (!endsInHole) {
      ByteBuffer rest = ByteBuffer.wrap(part, offset, length);
      for (long at = position; rest.hasRemaining(); ) {
        at += channel.write(rest, at);
      }
    }
    position += length;
  }

  private static boolean isZero(byte[] part, int offset, int length) {
    for (int i = offset; i < offset + length; i++) {
      if (part[i] != 0) {
        return false;
      }
    }
    return true;
  }

  @Override
  public void close() throws IOException {
    try (channel) {
      if (endsInHole && position > 0) {
        int unused = channel.write(ByteBuffer.allocate(1), position - 1);
      }
    }
  }
}
