package dev.gpuprocess.internal.image;

import dev.gpuprocess.image.Checksum;
import dev.gpuprocess.internal.linux.Descriptors;
import dev.gpuprocess.internal.time.WorkLimit;
import java.io.EOFException;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.function.Consumer;

/** Computes checksums of parts of files. */
final class ChunkChecksum {

  /** The size of the heap buffer that is used when there is no direct memory. */
  private static final int HEAP_BYTES = 64 << 10;

  private ChunkChecksum() {}

  /** Computes the checksum of a part of a file; links are refused. */
  static String of(Checksum kind, Path file, long from, long to, WorkLimit reading)
      throws IOException {
    RunningChecksum sum = RunningChecksum.of(kind);
    read(file, from, to, sum::add, reading);
    return sum.text();
  }

  static MessageDigest sha256() {
    try {
      return MessageDigest.getInstance("SHA-256");
    } catch (NoSuchAlgorithmException e) {
      throw new AssertionError("every Java has SHA-256", e);
    }
  }

  /** Reads a part of a file, piece by piece; links are refused. */
  static void read(Path file, long from, long to, Consumer<ByteBuffer> sum, WorkLimit reading)
      throws IOException {
    ByteBuffer direct = DirectBuffers.take();
    if (direct == null) {
      readIntoHeap(file, from, to, sum, reading);
      return;
    }
    try {
      read(file, from, to, direct, sum, reading);
    } finally {
      DirectBuffers.give(direct);
    }
  }

  private static void read(
      Path file, long from, long to, ByteBuffer buffer, Consumer<ByteBuffer> sum, WorkLimit reading)
      throws IOException {
    try (RandomAccessFile in = Descriptors.readRegular(file)) {
      FileChannel channel = in.getChannel();
      long at = from;
      while (at < to) {
        reading.check();
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

  /** Not a channel, which would allocate direct memory. */
  private static void readIntoHeap(
      Path file, long from, long to, Consumer<ByteBuffer> sum, WorkLimit reading)
      throws IOException {
    byte[] bytes = new byte[HEAP_BYTES];
    try (RandomAccessFile in = Descriptors.readRegular(file)) {
      in.seek(from);
      long at = from;
      while (at < to) {
        reading.check();
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
    return new EOFException(file + " was truncated while it was read");
  }
}
