package dev.gpuprocess.internal.target;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Set;

/**
 * The tables of a shared library in the memory of a process (System V ABI, x86-64, GNU hash table
 * of symbols). The process may have written anything there, and may change it at any moment: each
 * number is read once, and is checked before it is used. A table that cannot be used ends in an
 * {@link UnknownKindException}. For one thread.
 */
public final class MappedLibrary {

  private static final int PAGE = 4096;
  private static final int DYNAMIC_ENTRY = 16;
  private static final long DT_PLTRELSZ = 2;
  private static final long DT_STRTAB = 5;
  private static final long DT_SYMTAB = 6;
  private static final long DT_RELA = 7;
  private static final long DT_RELASZ = 8;
  private static final long DT_JMPREL = 23;
  private static final long DT_GNU_HASH = 0x6ffffef5L;
  private static final int HASH_HEADER = 16;
  private static final int SYMBOL = 24;
  private static final int RELOCATION = 24;
  private static final int GLOB_DAT = 6;
  private static final int JUMP_SLOT = 7;

  private static final int MOST_DYNAMIC_BYTES = PAGE;
  private static final int MOST_SYMBOLS = 1 << 16;
  private static final long MOST_RELOCATION_BYTES = 64 << 20;
  private static final int MOST_IMPORTS = 16;

  /** Symbols and relocations are read so many bytes at a time: both have 24. */
  private static final int BLOCK = 24 << 12;

  private final TargetMemory memory;
  private final long bias;
  private final Map<Long, Long> dynamic;

  private MappedLibrary(TargetMemory memory, long bias, Map<Long, Long> dynamic) {
    this.memory = memory;
    this.bias = bias;
    this.dynamic = dynamic;
  }

  /**
   * Reads the tables of a library.
   *
   * @param base the address where its file begins
   * @throws UnknownKindException if it is not such a library
   * @throws IOException if the memory cannot be read
   */
  public static MappedLibrary at(TargetMemory memory, long base) throws IOException {
    ElfHeader header =
        ElfHeader.read(memory, base)
            .filter(each -> each.is64() && each.machine() == ElfHeader.X86_64)
            .orElseThrow(() -> memory.unknown("its header is not that of a library for x86-64"));
    OptionalLong bias = OptionalLong.empty();
    Map<Long, Long> dynamic = new HashMap<>();
    for (ElfHeader.Segment each : header.segments()) {
      if (each.type() == ElfHeader.Segment.LOAD && bias.isEmpty()) {
        bias = OptionalLong.of(base - (each.address() & -PAGE));
      } else if (each.type() == ElfHeader.Segment.DYNAMIC && bias.isPresent()) {
        long bytes = each.memoryBytes();
        if (bytes < 0) {
          throw memory.unknown("its dynamic table has a negative size");
        }
        ByteBuffer entries =
            memory.buffer(
                bias.getAsLong() + each.address(), (int) Math.min(bytes, MOST_DYNAMIC_BYTES));
        while (entries.remaining() >= DYNAMIC_ENTRY) {
          dynamic.putIfAbsent(entries.getLong(), entries.getLong());
        }
      }
    }
    if (bias.isEmpty() || !dynamic.containsKey(DT_GNU_HASH)) {
      throw memory.unknown("it has no GNU hash table of symbols");
    }
    return new MappedLibrary(memory, bias.getAsLong(), dynamic);
  }

  /**
   * An exported function.
   *
   * @param bytes the size of its code as the library says, which may be any number
   */
  public record Function(long address, long bytes) {}

  /**
   * Finds an exported function.
   *
   * @return empty if the library does not export it
   * @throws UnknownKindException if its tables cannot be used
   * @throws IOException if the memory cannot be read
   */
  public Optional<Function> function(String name) throws IOException {
    long table = pointer(DT_GNU_HASH);
    ByteBuffer head = memory.buffer(table, HASH_HEADER);
    int buckets = head.getInt(0);
    int firstSymbol = head.getInt(4);
    long bucketsAt = table + HASH_HEADER + Long.BYTES * Integer.toUnsignedLong(head.getInt(8));
    if (buckets < 1 || firstSymbol < 0) {
      throw memory.unknown("its hash table has %s buckets".formatted(buckets));
    }
    int hash = hash(name);
    int bucket = Integer.remainderUnsigned(hash, buckets);
    int symbol = word(bucketsAt + (long) Integer.BYTES * bucket);
    if (symbol < firstSymbol) {
      return Optional.empty();
    }
    long chainAt = bucketsAt + (long) Integer.BYTES * buckets;
    for (int length = 0; length < MOST_SYMBOLS; length++) {
      long number = (long) symbol + length;
      int other = word(chainAt + Integer.BYTES * (number - firstSymbol));
      if ((other | 1) == (hash | 1)) {
        ByteBuffer entry = memory.buffer(pointer(DT_SYMTAB) + SYMBOL * number, SYMBOL);
        if (isNamed(entry.getInt(0), name)) {
          return Optional.of(new Function(bias + entry.getLong(8), entry.getLong(16)));
        }
      }
      if ((other & 1) != 0) {
        return Optional.empty();
      }
    }
    throw memory.unknown("its hash table has a chain without an end");
  }

  private int word(long address) throws IOException {
    return memory.buffer(address, Integer.BYTES).getInt();
  }

  private boolean isNamed(int offset, String name) throws IOException {
    byte[] expected = (name + '\0').getBytes(StandardCharsets.US_ASCII);
    byte[] there =
        memory.read(pointer(DT_STRTAB) + Integer.toUnsignedLong(offset), expected.length);
    return Arrays.equals(there, expected);
  }

  /** The dynamic linker of glibc relocates these entries; that of musl does not. */
  private long pointer(long tag) {
    long value = dynamic.getOrDefault(tag, 0L);
    return value < bias ? bias + value : value;
  }

  private static int hash(String name) {
    int hash = 5381;
    for (int i = 0; i < name.length(); i++) {
      hash = hash * 33 + name.charAt(i);
    }
    return hash;
  }

  /**
   * An imported function.
   *
   * @param slot the address of the library's pointer to the function; a multiple of 8
   * @param target the address in the slot
   */
  public record Import(String name, long slot, long target) {}

  /**
   * Finds imported functions in the tables of relocations ({@code R_X86_64_JUMP_SLOT}, {@code
   * R_X86_64_GLOB_DAT}). A function may have several slots.
   *
   * @param names of the functions
   * @throws UnknownKindException if its tables cannot be used
   * @throws IOException if the memory cannot be read
   */
  public List<Import> imports(Set<String> names) throws IOException {
    Map<Integer, String> symbols = undefined(names);
    List<Import> found = new ArrayList<>();
    if (!symbols.isEmpty()) {
      Set<Long> slots = new HashSet<>();
      addImports(DT_JMPREL, DT_PLTRELSZ, symbols, slots, found);
      addImports(DT_RELA, DT_RELASZ, symbols, slots, found);
    }
    return found;
  }

  /** The symbols before the first with a hash are those that the library does not define. */
  private Map<Integer, String> undefined(Set<String> names) throws IOException {
    int count = memory.buffer(pointer(DT_GNU_HASH), Long.BYTES).getInt(4);
    if (count < 0 || count > MOST_SYMBOLS) {
      throw memory.unknown("it imports %s symbols".formatted(Integer.toUnsignedString(count)));
    }
    int longest = names.stream().mapToInt(String::length).max().orElse(0);
    Map<Integer, String> found = new HashMap<>();
    long table = pointer(DT_SYMTAB);
    for (int first = 0; first < count; first += BLOCK / SYMBOL) {
      int part = Math.min(BLOCK / SYMBOL, count - first);
      ByteBuffer symbols = memory.buffer(table + (long) SYMBOL * first, part * SYMBOL);
      for (int i = 0; i < part; i++) {
        String name = text(symbols.getInt(i * SYMBOL), longest + 1);
        if (names.contains(name)) {
          found.put(first + i, name);
        }
      }
    }
    return found;
  }

  /** Reads at most so many bytes of a string. */
  private String text(int offset, int most) throws IOException {
    long address = pointer(DT_STRTAB) + Integer.toUnsignedLong(offset);
    // A string may be the last of a mapping.
    int bytes = (int) Math.min(most, PAGE - (address & (PAGE - 1)));
    byte[] there = memory.read(address, bytes);
    if (bytes < most && !hasEnd(there)) {
      byte[] rest = memory.read(address + bytes, most - bytes);
      there = Arrays.copyOf(there, most);
      System.arraycopy(rest, 0, there, bytes, rest.length);
    }
    int end = 0;
    while (end < there.length && there[end] != 0) {
      end++;
    }
    return new String(there, 0, end, StandardCharsets.ISO_8859_1);
  }

  private static boolean hasEnd(byte[] text) {
    for (byte each : text) {
      if (each == 0) {
        return true;
      }
    }
    return false;
  }

  private void addImports(
      long table, long size, Map<Integer, String> symbols, Set<Long> slots, List<Import> found)
      throws IOException {
    long bytes = dynamic.getOrDefault(size, 0L);
    if (bytes < 0 || bytes > MOST_RELOCATION_BYTES) {
      throw memory.unknown(
          "a table of its relocations has %s bytes".formatted(Long.toUnsignedString(bytes)));
    }
    for (long done = 0; bytes - done >= RELOCATION; done += BLOCK) {
      int part = (int) Math.min(BLOCK, (bytes - done) / RELOCATION * RELOCATION);
      ByteBuffer entries = memory.buffer(pointer(table) + done, part);
      for (int at = 0; at < part; at += RELOCATION) {
        int type = entries.getInt(at + 8);
        String name = symbols.get(entries.getInt(at + 12));
        long slot = bias + entries.getLong(at);
        if (name != null
            && (type == JUMP_SLOT || type == GLOB_DAT)
            && slot % Long.BYTES == 0
            && slots.add(slot)) {
          if (found.size() == MOST_IMPORTS) {
            throw memory.unknown("it imports %s more than once".formatted(name));
          }
          found.add(new Import(name, slot, memory.readLong(slot)));
        }
      }
    }
  }
}
