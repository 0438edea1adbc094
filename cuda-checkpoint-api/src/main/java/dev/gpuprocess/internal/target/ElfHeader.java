package dev.gpuprocess.internal.target;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;

/**
 * The header of an ELF file or of a mapped one, and its segments (elf(5)). All numbers are those of
 * the file, which may be hostile.
 *
 * @param is64 whether its words have 64 bits
 * @param machine the processor, such as 62 for x86-64
 */
public record ElfHeader(boolean is64, ByteOrder order, int machine, List<Segment> segments) {

  /** The number of x86-64. */
  public static final int X86_64 = 62;

  private static final byte[] MAGIC = {0x7f, 'E', 'L', 'F'};
  private static final int CLASS_64 = 2;
  private static final int BIG_ENDIAN = 2;
  private static final int BYTES = 64;
  private static final int MOST_SEGMENTS = 256;

  /**
   * A segment.
   *
   * @param type such as {@code PT_LOAD}
   * @param offset in the file
   * @param fileBytes in the file
   * @param address in memory, before relocation
   * @param memoryBytes in memory
   */
  public record Segment(int type, long offset, long fileBytes, long address, long memoryBytes) {

    /** A segment of the file that is mapped. */
    public static final int LOAD = 1;

    /** The table that the dynamic linker reads. */
    public static final int DYNAMIC = 2;

    /** Notes. */
    public static final int NOTE = 4;
  }

  /**
   * Reads a header.
   *
   * @param start of the file in the source
   * @return empty if there is none, or the table of segments is not of a usual size
   * @throws IOException if the source cannot be read
   */
  public static Optional<ElfHeader> read(ByteSource source, long start) throws IOException {
    byte[] head = source.read(start, BYTES);
    if (head.length < BYTES || !Arrays.equals(MAGIC, Arrays.copyOf(head, MAGIC.length))) {
      return Optional.empty();
    }
    boolean is64 = head[4] == CLASS_64;
    ByteOrder order = head[5] == BIG_ENDIAN ? ByteOrder.BIG_ENDIAN : ByteOrder.LITTLE_ENDIAN;
    ByteBuffer header = ByteBuffer.wrap(head).order(order);
    int size = Short.toUnsignedInt(header.getShort(is64 ? 54 : 42));
    int count = Short.toUnsignedInt(header.getShort(is64 ? 56 : 44));
    if (size < (is64 ? 56 : 32) || size > BYTES || count > MOST_SEGMENTS) {
      return Optional.empty();
    }
    byte[] table = source.read(start + word(header, is64 ? 32 : 28, is64), size * count);
    ByteBuffer entries = ByteBuffer.wrap(table).order(order);
    List<Segment> segments = new ArrayList<>();
    for (int at = 0; at + size <= table.length; at += size) {
      segments.add(
          new Segment(
              entries.getInt(at),
              word(entries, at + (is64 ? 8 : 4), is64),
              word(entries, at + (is64 ? 32 : 16), is64),
              word(entries, at + (is64 ? 16 : 8), is64),
              word(entries, at + (is64 ? 40 : 20), is64)));
    }
    return Optional.of(
        new ElfHeader(is64, order, Short.toUnsignedInt(header.getShort(18)), segments));
  }

  private static long word(ByteBuffer bytes, int at, boolean is64) {
    return is64 ? bytes.getLong(at) : Integer.toUnsignedLong(bytes.getInt(at));
  }
}
