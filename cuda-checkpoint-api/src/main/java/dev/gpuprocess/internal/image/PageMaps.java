package dev.gpuprocess.internal.image;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.internal.linux.DurableFiles;
import dev.gpuprocess.internal.linux.Libc;
import dev.gpuprocess.internal.linux.PinnedDirectory;
import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Compares CRIU's memory images with their page maps. CRIU loops endlessly on a {@code pages-N.img}
 * that is shorter than {@code pagemap-*.img} requires, even if both match the manifest. Therefore
 * this is checked before the dumped process may be killed and before each restore.
 *
 * <p>A page map is two magic numbers and then records of a length and a protobuf message: first
 * {@code pagemap_head}, then one {@code pagemap_entry} for each run of pages. The messages are flat
 * and decoded here, so that an image is checked without a CRIU driver.
 */
final class PageMaps {

  private static final int MAGIC_COMMON = 0x54564319;
  private static final int MAGIC_PAGEMAP = 0x56084025;
  private static final int MAX_MESSAGE_BYTES = 4096;

  // pagemap_head
  private static final int PAGES_ID = 1;
  // pagemap_entry
  private static final int PAGES_32_BITS = 2;
  private static final int IN_PARENT = 3;
  private static final int FLAGS = 4;
  private static final int PAGES = 5;
  private static final long FLAG_PRESENT = 4;

  private static final int FIELDS = 6;
  private static final long ABSENT = -1;

  private static final int WIRE_VARINT = 0;
  private static final int WIRE_64_BITS = 1;
  private static final int WIRE_BYTES = 2;
  private static final int WIRE_32_BITS = 5;

  private PageMaps() {}

  /**
   * Checks every page map in a directory of CRIU image files, and that no memory image is longer
   * than the page maps require: a sparse file of a few blocks can be terabytes long.
   */
  static void requireComplete(PinnedDirectory image, Path images, String operation, long pid)
      throws IOException {
    Map<String, Long> explained = new HashMap<>();
    List<Path> files = DurableFiles.list(images);
    for (Path file : files) {
      if (file.getFileName().toString().startsWith("pagemap-")) {
        try {
          requireComplete(file, explained);
        } catch (ArithmeticException | BufferUnderflowException | EOFException e) {
          throw corrupt(image.shown(file) + " is truncated or altered", operation, pid, e);
        } catch (MismatchException e) {
          throw corrupt(image.shown(file) + " " + e.getMessage(), operation, pid, e);
        }
      }
    }
    for (Path file : files) {
      String name = file.getFileName().toString();
      if (name.startsWith("pages-")) {
        requireExplained(
            image.shown(file), size(file), explained.getOrDefault(name, 0L), operation, pid);
      }
    }
  }

  private static void requireExplained(
      Path file, long bytes, long needed, String operation, long pid) {
    if (bytes > needed) {
      throw new ImageException(
          ImageException.Reason.CORRUPT,
          "%s has %s bytes but the page maps require %s: it was altered; use another copy of the image"
              .formatted(file, bytes, needed),
          Failure.of(operation, pid));
    }
  }

  private static ImageException corrupt(String what, String operation, long pid, Exception cause) {
    return new ImageException(
        ImageException.Reason.CORRUPT,
        what
            + ": the memory of the process is incomplete, so this image cannot be restored; use another copy of it",
        Failure.of(operation, pid),
        cause);
  }

  /** Adds the memory image that it describes, and its length. */
  private static void requireComplete(Path pagemap, Map<String, Long> explained)
      throws IOException, MismatchException {
    try (DataInputStream in =
        new DataInputStream(
            new BufferedInputStream(Files.newInputStream(pagemap, LinkOption.NOFOLLOW_LINKS)))) {
      if (int32(in) != MAGIC_COMMON || int32(in) != MAGIC_PAGEMAP) {
        throw new MismatchException("is not a page map of CRIU");
      }
      long id = message(in)[PAGES_ID];
      long pages = 0;
      while (in.available() > 0) {
        pages = Math.addExact(pages, present(message(in)));
      }
      long needed = Math.multiplyExact(pages, Libc.PAGE_BYTES);
      Path memory = pagemap.resolveSibling("pages-" + id + ".img");
      long bytes = Files.exists(memory, LinkOption.NOFOLLOW_LINKS) ? size(memory) : 0;
      if (bytes < needed) {
        throw new MismatchException(
            "needs %s bytes of %s, which has %s".formatted(needed, memory.getFileName(), bytes));
      }
      explained.merge(memory.getFileName().toString(), needed, Math::max);
    }
  }

  /** How many pages of a run are in the memory image. Handles older formats as CRIU does. */
  private static long present(long[] entry) throws MismatchException {
    boolean present =
        entry[FLAGS] == ABSENT ? entry[IN_PARENT] <= 0 : (entry[FLAGS] & FLAG_PRESENT) != 0;
    long pages = entry[PAGES] == ABSENT ? entry[PAGES_32_BITS] : entry[PAGES];
    if (pages < 0) {
      throw new MismatchException("has a run without a length");
    }
    return present ? pages : 0;
  }

  private static long size(Path file) throws IOException {
    return Files.readAttributes(file, BasicFileAttributes.class, LinkOption.NOFOLLOW_LINKS).size();
  }

  private static int int32(DataInputStream in) throws IOException {
    return Integer.reverseBytes(in.readInt());
  }

  private static long[] message(DataInputStream in) throws IOException, MismatchException {
    int length = int32(in);
    if (length < 0 || length > MAX_MESSAGE_BYTES) {
      throw new MismatchException("has a record of an impossible length");
    }
    byte[] bytes = new byte[length];
    in.readFully(bytes);
    return fields(ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN));
  }

  private static long[] fields(ByteBuffer message) throws MismatchException {
    long[] values = new long[FIELDS];
    Arrays.fill(values, ABSENT);
    while (message.hasRemaining()) {
      long key = varint(message);
      switch ((int) (key & 7)) {
        case WIRE_VARINT -> {
          long value = varint(message);
          if (key >>> 3 < FIELDS) {
            values[(int) (key >>> 3)] = value;
          }
        }
        case WIRE_64_BITS -> message.getLong();
        case WIRE_32_BITS -> message.getInt();
        case WIRE_BYTES -> skip(message, varint(message));
        default -> throw new MismatchException("has a field of an unknown kind");
      }
    }
    return values;
  }

  private static void skip(ByteBuffer message, long length) throws MismatchException {
    if (length < 0 || length > message.remaining()) {
      throw new MismatchException("has a field of an impossible length");
    }
    message.position(message.position() + (int) length);
  }

  private static long varint(ByteBuffer message) throws MismatchException {
    long value = 0;
    for (int shift = 0; shift < Long.SIZE; shift += 7) {
      byte next = message.get();
      value |= (next & 0x7FL) << shift;
      if (next >= 0) {
        return value;
      }
    }
    throw new MismatchException("has a number without an end");
  }

  /** A page map that is malformed, or does not match its memory image. */
  private static final class MismatchException extends Exception {
    private static final long serialVersionUID = 1L;

    MismatchException(String what) {
      super(what);
    }
  }
}
