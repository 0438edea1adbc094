package dev.gpuprocess.internal.machine;

import dev.gpuprocess.internal.target.ElfHeader;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.Optional;

/**
 * Reads the build id of an ELF file: the note {@code NT_GNU_BUILD_ID} of a segment {@code PT_NOTE}
 * (elf(5)). The file may be hostile, so only a few small parts of it are read.
 */
final class BuildId {

  private static final byte[] OWNER = {'G', 'N', 'U', 0};
  private static final int NT_GNU_BUILD_ID = 3;
  private static final int NOTE_HEADER = 12;
  private static final int MOST_OF_NOTES = 1 << 16;
  private static final int LONGEST_ID = 64;

  private BuildId() {}

  /** Returns the build id in hexadecimal; else empty, or the file is not in ELF. */
  static Optional<String> of(RandomAccessFile file) throws IOException {
    Optional<ElfHeader> header = ElfHeader.read((at, bytes) -> read(file, at, bytes), 0);
    if (header.isEmpty()) {
      return Optional.empty();
    }
    for (ElfHeader.Segment each : header.get().segments()) {
      if (each.type() == ElfHeader.Segment.NOTE) {
        int most = (int) Math.max(0, Math.min(each.fileBytes(), MOST_OF_NOTES));
        ByteBuffer notes =
            ByteBuffer.wrap(read(file, each.offset(), most)).order(header.get().order());
        Optional<String> found = inNotes(notes);
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
