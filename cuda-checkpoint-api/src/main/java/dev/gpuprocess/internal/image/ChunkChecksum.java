package dev.gpuprocess.internal.image;

import dev.gpuprocess.internal.linux.Descriptors;
import dev.gpuprocess.internal.manifest.Checksum;
import dev.gpuprocess.internal.time.WorkLimit;
import java.io.EOFException;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import java.util.function.Supplier;
import java.util.zip.CRC32C;
import org.jspecify.annotations.Nullable;

/** The checksum of a chunk of an image file, whose data comes in parts. For one thread. */
final class ChunkChecksum {

  static final int BUFFER_BYTES = 256 << 10;

  /** The size of the heap buffer that is used without direct memory. */
  private static final int HEAP_BYTES = 64 << 10;

  /**
   * The direct memory that files are read into: one buffer for each core, allocated once and reused
   * for the life of the JVM. Direct memory is freed only by a garbage collection, and its limit is
   * that of the whole JVM.
   */
  private static final ConcurrentLinkedQueue<ByteBuffer> IDLE = new ConcurrentLinkedQueue<>();

  private static final AtomicInteger BUFFERS_LEFT =
      new AtomicInteger(Runtime.getRuntime().availableProcessors());

  private final Consumer<ByteBuffer> update;
  private final Supplier<String> text;

  private ChunkChecksum(Consumer<ByteBuffer> update, Supplier<String> text) {
    this.update = update;
    this.text = text;
  }

  /** Starts a checksum. */
  static ChunkChecksum of(Checksum kind) {
    if (kind == Checksum.CRC32C) {
      CRC32C crc = new CRC32C();
      return new ChunkChecksum(crc::update, () -> HexFormat.of().toHexDigits((int) crc.getValue()));
    }
    MessageDigest sha = sha256();
    return new ChunkChecksum(sha::update, () -> HexFormat.of().formatHex(sha.digest()));
  }

  static MessageDigest sha256() {
    try {
      return MessageDigest.getInstance("SHA-256");
    } catch (NoSuchAlgorithmException e) {
      throw new AssertionError("every Java has SHA-256", e);
    }
  }

  /** Adds the bytes between position and limit. */
  void add(ByteBuffer data) {
    update.accept(data);
  }

  /** Returns the checksum of all bytes as a manifest has it. To be called once. */
  String text() {
    return text.get();
  }

  /** Computes the checksum of a part of a file; links are refused. */
  static String of(Checksum kind, Path file, long from, long to, WorkLimit reading)
      throws IOException {
    ChunkChecksum sum = of(kind);
    read(file, from, to, sum::add, reading);
    return sum.text();
  }

  /** Reads a part of a file, piece by piece; links are refused. */
  static void read(Path file, long from, long to, Consumer<ByteBuffer> sum, WorkLimit reading)
      throws IOException {
    ByteBuffer direct = takeBuffer();
    if (direct == null) {
      readIntoHeap(file, from, to, sum, reading);
      return;
    }
    try {
      read(file, from, to, direct, sum, reading);
    } finally {
      IDLE.add(direct);
    }
  }

  /** Takes a buffer; null when all are in use, or this JVM has no direct memory left. */
  private static @Nullable ByteBuffer takeBuffer() {
    ByteBuffer idle = IDLE.poll();
    if (idle != null) {
      return idle.clear();
    }
    if (BUFFERS_LEFT.getAndUpdate(left -> Math.max(0, left - 1)) == 0) {
      return null;
    }
    try {
      return ByteBuffer.allocateDirect(BUFFER_BYTES);
    } catch (OutOfMemoryError limited) {
      // Each attempt takes the JDK half a second, so this is the last one.
      BUFFERS_LEFT.set(0);
      return null;
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

  /** Does not use a channel, which would allocate direct memory. */
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
