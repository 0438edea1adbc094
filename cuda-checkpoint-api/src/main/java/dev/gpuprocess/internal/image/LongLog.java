package dev.gpuprocess.internal.image;

import static java.nio.charset.StandardCharsets.UTF_8;

import dev.gpuprocess.internal.linux.Descriptors;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * A log that is kept, and may be very long: CRIU repeats itself for ever on some broken images, and
 * is ended only when its log has a GiB.
 */
final class LongLog {

  /** The length of its beginning, and of its end, that are kept in any case. */
  static final long PART = 32 << 20;

  private static final int PIECE = 1 << 20;

  private LongLog() {}

  /**
   * Leaves out the middle of a log, in place: the disk may be full.
   *
   * @param part bytes at the beginning, and at the end, that stay
   */
  static void shorten(Path log, long part) throws IOException {
    if (Files.size(log) <= 2 * part) {
      return; // without being opened, which takes a descriptor, and a permission where CRIU is
      // root's
    }
    try (RandomAccessFile file = Descriptors.readAndWrite(log)) {
      long size = file.length();
      byte[] note = "\n(%s bytes are left out here)\n".formatted(size - 2 * part).getBytes(UTF_8);
      if (size <= 2 * part + note.length) {
        return;
      }
      file.seek(part);
      file.write(note);
      file.setLength(moved(file, size - part, part + note.length));
    }
  }

  /** Moves what is from a place on to an earlier one, and returns where it ends there. */
  private static long moved(RandomAccessFile file, long from, long to) throws IOException {
    byte[] piece = new byte[PIECE];
    long moved = 0;
    while (true) {
      file.seek(from + moved);
      int count = file.read(piece);
      if (count < 0) {
        return to + moved;
      }
      file.seek(to + moved);
      file.write(piece, 0, count);
      moved += count;
    }
  }
}
