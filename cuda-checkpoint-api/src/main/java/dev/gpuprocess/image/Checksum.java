package dev.gpuprocess.image;

import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.function.Consumer;
import java.util.zip.CRC32C;

/** How the files of an image are summed. */
public enum Checksum {
  /** Finds every accident, as fast as memory can be read. */
  CRC32C(8),
  /** Finds what was altered on purpose too; several times slower. Images with a key have it. */
  SHA256(64);

  private static final int BUFFER_BYTES = 256 << 10;

  // Of the short-lived threads of Workers, so that it goes when the work is done.
  private static final ThreadLocal<ByteBuffer> BUFFER =
      ThreadLocal.withInitial(() -> ByteBuffer.allocateDirect(BUFFER_BYTES));

  private final int digits;

  Checksum(int digits) {
    this.digits = digits;
  }

  /** How many hexadecimal digits a sum has. */
  int digits() {
    return digits;
  }

  /** Sums a part of a file. */
  String of(Path file, long from, long to) throws IOException {
    if (this == CRC32C) {
      CRC32C crc = new CRC32C();
      read(file, from, to, crc::update);
      return HexFormat.of().toHexDigits((int) crc.getValue());
    }
    MessageDigest digest = sha256();
    read(file, from, to, digest::update);
    return HexFormat.of().formatHex(digest.digest());
  }

  static MessageDigest sha256() {
    try {
      return MessageDigest.getInstance("SHA-256");
    } catch (NoSuchAlgorithmException e) {
      throw new AssertionError("every Java has SHA-256", e);
    }
  }

  private static void read(Path file, long from, long to, Consumer<ByteBuffer> sum)
      throws IOException {
    ByteBuffer buffer = BUFFER.get();
    try (FileChannel channel =
        FileChannel.open(file, StandardOpenOption.READ, LinkOption.NOFOLLOW_LINKS)) {
      long at = from;
      while (at < to) {
        buffer.clear().limit((int) Math.min(BUFFER_BYTES, to - at));
        int count = channel.read(buffer, at);
        if (count < 0) {
          throw new EOFException(file + " became shorter while it was read");
        }
        sum.accept(buffer.flip());
        at += count;
      }
    }
  }
}
