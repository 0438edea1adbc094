package dev.gpuprocess.image;

import dev.gpuprocess.internal.os.Descriptors;
import dev.gpuprocess.internal.store.Reading;
import java.io.EOFException;
import java.io.IOException;
import java.io.RandomAccessFile;
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

  /** Of the memory that is read into where there is no direct memory. */
  private static final int HEAP_BYTES = 64 << 10;

  private final int digits;

  Checksum(int digits) {
    this.digits = digits;
  }

  /** How many hexadecimal digits a sum has. */
  int digits() {
    return digits;
  }

  /** Sums a part of a file that is no link. */
  String of(Path file, long from, long to, Reading reading) throws IOException {
    if (this == CRC32C) {
      CRC32C crc = new CRC32C();
      read(file, from, to, crc::update, reading);
      return HexFormat.of().toHexDigits((int) crc.getValue());
    }
    MessageDigest digest = sha256();
    read(file, from, to, digest::update, reading);
    return HexFormat.of().formatHex(digest.digest());
  }

  static MessageDigest sha256() {
    try {
      return MessageDigest.getInstance("SHA-256");
    } catch (NoSuchAlgorithmException e) {
      throw new AssertionError("every Java has SHA-256", e);
    }
  }

  private static void read(Path file, long from, long to, Consumer<ByteBuffer> sum, Reading reading)
      throws IOException {
    ByteBuffer direct = Buffers.take();
    if (direct == null) {
      readIntoHeap(file, from, to, sum, reading);
      return;
    }
    try {
      read(file, from, to, direct, sum, reading);
    } finally {
      Buffers.give(direct);
    }
  }

  private static void read(
      Path file, long from, long to, ByteBuffer buffer, Consumer<ByteBuffer> sum, Reading reading)
      throws IOException {
    try (FileChannel channel =
        FileChannel.open(file, StandardOpenOption.READ, LinkOption.NOFOLLOW_LINKS)) {
      long at = from;
      while (at < to) {
        reading.requireTime();
        buffer.clear().limit((int) Math.min(buffer.capacity(), to - at));
        int count = channel.read(buffer, at);
        if (count < 0) {
          throw shorter(file);
        }
        sum.accept(buffer.flip());
        at += count;
      }
    }
  }

  /** A channel would read into direct memory first. */
  private static void readIntoHeap(
      Path file, long from, long to, Consumer<ByteBuffer> sum, Reading reading) throws IOException {
    byte[] bytes = new byte[HEAP_BYTES];
    try (RandomAccessFile in = Descriptors.read(file)) {
      in.seek(from);
      long at = from;
      while (at < to) {
        reading.requireTime();
        int count = in.read(bytes, 0, (int) Math.min(bytes.length, to - at));
        if (count < 0) {
          throw shorter(file);
        }
        sum.accept(ByteBuffer.wrap(bytes, 0, count));
        at += count;
      }
    }
  }

  private static EOFException shorter(Path file) {
    return new EOFException(file + " became shorter while it was read");
  }
}
