package dev.gpuprocess.internal.memory;

import dev.gpuprocess.internal.proc.Mapping;
import dev.gpuprocess.internal.target.ByteSource;
import dev.gpuprocess.internal.target.ElfHeader;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.List;
import java.util.Random;

/**
 * A shared library as the dynamic linker would map it, in an address space that is otherwise empty
 * but for huge regions. Every change can be undone.
 */
final class LibraryInMemory implements ByteSource {

  static final long BASE = 0x7f12_3450_0000L;

  /** A region of zeros, of 64 GiB. */
  static final long ZEROS = BASE + (1L << 32);

  private static final long ZEROS_END = ZEROS + (64L << 30);

  /** A table of relocations of one symbol, each with another slot, of 64 GiB. */
  static final long RELOCATIONS = ZEROS_END + (1L << 40);

  private static final long RELOCATIONS_END = RELOCATIONS + (64L << 30);
  private static final long JUMP_SLOT = 7;
  private static final int PAGE = 4096;

  private final byte[] bytes;
  private final ByteBuffer view;
  private final List<Mapping> mappings = new ArrayList<>();
  private final List<Long> fields = new ArrayList<>();
  private final Deque<Change> changes = new ArrayDeque<>();
  private int end;
  private int symbol;
  private int noise;
  private Random random = new Random(0);

  private record Change(int at, byte before) {}

  LibraryInMemory(Path file) throws IOException {
    byte[] content = Files.readAllBytes(file);
    ByteBuffer elf = ByteBuffer.wrap(content).order(ByteOrder.LITTLE_ENDIAN);
    List<ElfHeader.Segment> segments =
        ElfHeader.read(
                (at, count) ->
                    Arrays.copyOfRange(content, Math.toIntExact(at), Math.toIntExact(at + count)),
                0)
            .orElseThrow()
            .segments();
    long last =
        segments.stream()
            .filter(each -> each.type() == ElfHeader.Segment.LOAD)
            .mapToLong(each -> each.address() + each.memoryBytes())
            .max()
            .orElseThrow();
    bytes = new byte[Math.toIntExact((last + PAGE - 1) & -PAGE)];
    end = bytes.length;
    view = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
    int header = Math.toIntExact(elf.getLong(32));
    for (int i = 0; i < segments.size(); i++) {
      ElfHeader.Segment each = segments.get(i);
      if (each.type() == ElfHeader.Segment.LOAD) {
        System.arraycopy(
            content, (int) each.offset(), bytes, (int) each.address(), (int) each.fileBytes());
        mappings.add(mapping(each, elf.getInt(header + i * 56 + 4)));
      }
    }
    for (int at = 0; at < 64 + segments.size() * 56; at += 2) {
      fields.add((long) at);
    }
    for (ElfHeader.Segment each : segments) {
      if (each.type() == ElfHeader.Segment.DYNAMIC) {
        addTables(each);
      }
    }
  }

  /** The fields of the dynamic table, and the heads of the tables that it leads to. */
  private void addTables(ElfHeader.Segment dynamic) {
    for (long at = dynamic.address(); at < dynamic.address() + dynamic.memoryBytes(); at += 8) {
      fields.add(at);
      long table = view.getLong((int) at);
      if (table > 0 && table < bytes.length - 512) {
        for (int i = 0; i < 256; i += 4) {
          fields.add(table + i);
        }
      }
    }
  }

  private static Mapping mapping(ElfHeader.Segment segment, int flags) {
    String permissions =
        ((flags & 4) != 0 ? "r" : "-")
            + ((flags & 2) != 0 ? "w" : "-")
            + ((flags & 1) != 0 ? "x" : "-")
            + "p";
    return new Mapping(
        BASE + (segment.address() & -PAGE),
        BASE + ((segment.address() + segment.memoryBytes() + PAGE - 1) & -PAGE),
        permissions,
        segment.offset() & -PAGE,
        "00:01",
        7,
        "/usr/lib/libcuda.so.1");
  }

  List<Mapping> mappings() {
    return mappings;
  }

  /** Offsets of numbers that a reader of the tables depends on. */
  List<Long> fields() {
    return fields;
  }

  int size() {
    return bytes.length;
  }

  /** Returns where the dynamic table has the value of a tag. */
  int valueOf(long tag) {
    int header = (int) view.getLong(32);
    for (int i = 0; i < view.getShort(56); i++) {
      if (view.getInt(header + i * 56) == ElfHeader.Segment.DYNAMIC) {
        for (int at = (int) view.getLong(header + i * 56 + 16); ; at += 16) {
          if (view.getLong(at) == tag) {
            return at + 8;
          }
        }
      }
    }
    throw new IllegalStateException("the library has no dynamic table");
  }

  /** Returns where a table begins that the dynamic table names. */
  int table(long tag) {
    return (int) view.getLong(valueOf(tag));
  }

  /** Writes a number. */
  void put(long at, int size, long value) {
    for (int i = 0; i < size && at + i < bytes.length; i++) {
      int place = (int) at + i;
      changes.push(new Change(place, bytes[place]));
      bytes[place] = (byte) (value >>> (8 * i));
    }
  }

  void flip(long at, int bit) {
    put(at, 1, bytes[(int) at] ^ (1 << bit));
  }

  /** Unmaps what is behind an offset. */
  void truncate(int size) {
    end = size;
  }

  /** Sets the symbol of the huge table of relocations. */
  void relocate(int number) {
    symbol = number;
  }

  /** Changes one bit in each so many reads. */
  void changeEach(int reads, Random by) {
    noise = reads;
    random = by;
  }

  /** Undoes all changes. */
  void undo() {
    while (!changes.isEmpty()) {
      Change last = changes.pop();
      bytes[last.at()] = last.before();
    }
    end = bytes.length;
    noise = 0;
  }

  @Override
  public byte[] read(long position, int count) throws IOException {
    byte[] read = unchanged(position, count);
    if (noise > 0 && read.length > 0 && random.nextInt(noise) == 0) {
      read[random.nextInt(read.length)] ^= (byte) (1 << random.nextInt(8));
    }
    return read;
  }

  private byte[] unchanged(long position, int count) throws IOException {
    if (position >= BASE && position - BASE + count <= end) {
      int from = (int) (position - BASE);
      return Arrays.copyOfRange(bytes, from, from + count);
    }
    if (position >= ZEROS && position + count <= ZEROS_END) {
      return new byte[count];
    }
    if (position >= RELOCATIONS && position + count <= RELOCATIONS_END) {
      ByteBuffer entries = ByteBuffer.allocate(count + 24).order(ByteOrder.LITTLE_ENDIAN);
      for (int at = 0; at < count; at += 24) {
        entries.putLong(at, ZEROS - BASE + (position - RELOCATIONS + at) / 24 * 8);
        entries.putLong(at + 8, ((long) symbol << 32) | JUMP_SLOT);
      }
      return Arrays.copyOf(entries.array(), count);
    }
    throw new IOException("nothing is mapped at " + Long.toHexString(position));
  }
}
