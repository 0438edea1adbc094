package dev.gpuprocess.internal.machine;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.Optional;

/**
 * Reads the build id of an ELF file: the note {@code NT_GNU_BUILD_ID} of a segment {@code PT_NOTE}
 * (elf(5)). The file may be hostile, so only a few small parts of it are read.
 */
final class BuildId {

  private static final byte[] MAGIC = {0x7f, 'E', 'L', 'F'};
  private static final byte[] OWNER = {'G', 'N', 'U', 0};
  private static final int CLASS_64 = 2;
  private static final int BIG_ENDIAN = 2;
  private static final int HEADER_BYTES = 64;
  private static final int PT_NOTE = 4;
  private static final int NT_GNU_BUILD_ID = 3;
  private static final int NOTE_HEADER = 12;
  private static final int MOST_SEGMENTS = 256;
  private static final int MOST_OF_NOTES = 1 << 16;
  private static final int LONGEST_ID = 64;

  private BuildId() {}

  /** Returns the build id in hexadecimal; else empty, or the file is not in ELF. */
  static Optional<String> of(RandomAccessFile file) throws IOException {
    byte[] head = read(file, 0, HEADER_BYTES);
    if (head.length < HEADER_BYTES || !Arrays.equals(MAGIC, Arrays.copyOf(head, MAGIC.length))) {
      return Optional.empty();
    }
    boolean is64 = head[4] == CLASS_64;
    ByteOrder order = head[5] == BIG_ENDIAN ? ByteOrder.BIG_ENDIAN : ByteOrder.LITTLE_ENDIAN;
    ByteBuffer header = ByteBuffer.wrap(head).order(order);
    long table = word(header, is64 ? 32 : 28, is64);
    int size = Short.toUnsignedInt(header.getShort(is64 ? 54 : 42));
    int count = Short.toUnsignedInt(header.getShort(is64 ? 56 : 44));
    if (size < (is64 ? 56 : 32) || size > HEADER_BYTES || count > MOST_SEGMENTS) {
      return Optional.empty();
    }
    ByteBuffer segments = ByteBuffer.wrap(read(file, table, size * count)).order(order);
    for (int at = 0; at + size <= segments.capacity(); at += size) {
      if (segments.getInt(at) == PT_NOTE) {
        long offset = word(segments, at + (is64 ? 8 : 4), is64);
        long bytes = word(segments, at + (is64 ? 32 : 16), is64);
        int most = (int) Math.max(0, Math.min(bytes, MOST_OF_NOTES));
        Optional<String> found = inNotes(ByteBuffer.wrap(read(file, offset, most)).order(order));
        if (found.isPresent()) {
          return found;
        }
      }
    }
    return Optional.empty();
  }

  private static Optional<String> inNotes(ByteBuffer notes) {
    while (notes.remaining() >= NOTE_HEADER) {
      long name = Integer.toUnsignedLong(notes.getInt());
      long content = Integer.toUnsignedLong(notes.getInt());
      int type = notes.getInt();
      if (padded(name) + padded(content) > notes.remaining()) {
        return Optional.empty();
      }
      byte[] owner = new byte[(int) padded(name)];
      notes.get(owner);
      byte[] id = new byte[(int) padded(content)];
      notes.get(id);
      if (type == NT_GNU_BUILD_ID
          && Arrays.equals(OWNER, owner)
          && content > 0
          && content <= LONGEST_ID) {
        return Optional.of(HexFormat.of().formatHex(id, 0, (int) content));
      }
    }
    return Optional.empty();
  }

  private static long padded(long bytes) {
    return bytes + 3 & ~3L;
  }

  private static long word(ByteBuffer bytes, int at, boolean is64) {
    return is64 ? bytes.getLong(at) : Integer.toUnsignedLong(bytes.getInt(at));
  }

  /** Reads a part of the file, which is shorter at its end and empty outside. */
  private static byte[] read(RandomAccessFile file, long from, int bytes) throws IOException {
    if (from < 0 || from >= file.length()) {
      return new byte[0];
    }
    byte[] part = new byte[bytes];
    file.seek(from);
    int done = 0;
    while (done < bytes) {
      int more = file.read(part, done, bytes - done);
      if (more < 0) {
        break;
      }
      done += more;
    }
    return Arrays.copyOf(part, done);
  }
}
