package dev.gpuprocess.internal.memory;

import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.linux.ProcessMemory;
import dev.gpuprocess.internal.proc.Mapping;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Set;
import java.util.regex.Pattern;

/**
 * A libcuda that a process has mapped. It is read from the memory of the process, so its file may
 * have been deleted or replaced, or be in a container.
 *
 * <p>Each exported function of libcuda calls its implementation through a slot: eight bytes in the
 * library's data. The layout is that of the System V ABI and the GNU hash table of symbols.
 */
final class DriverLibrary {

  private static final Pattern NAME =
      Pattern.compile(".*/libcuda\\.so(\\.[0-9.]+)?( \\(deleted\\))?");

  private static final int ELF = 0x464c457f;
  private static final int X86_64 = 62;
  private static final int HEADER = 64;
  private static final int PROGRAM_HEADER = 56;
  private static final int PT_LOAD = 1;
  private static final int PT_DYNAMIC = 2;
  private static final long DT_PLTRELSZ = 2;
  private static final long DT_STRTAB = 5;
  private static final long DT_SYMTAB = 6;
  private static final long DT_RELA = 7;
  private static final long DT_RELASZ = 8;
  private static final long DT_JMPREL = 23;
  private static final long DT_GNU_HASH = 0x6ffffef5L;
  private static final int SYMBOL = 24;
  private static final int RELOCATION = 24;
  private static final int GLOB_DAT = 6;
  private static final int JUMP_SLOT = 7;

  /** The call is within the first 48 bytes of driver 580's functions of up to six parameters. */
  private static final int CODE = 96;

  private static final int MOST_CODE = 4096;
  private static final int MOST_PROGRAM_HEADERS = 64;
  private static final int MOST_DYNAMIC_BYTES = 4096;
  private static final int MOST_UNDEFINED_SYMBOLS = 1 << 16;
  private static final int MOST_RELOCATION_BYTES = 64 << 20;

  private final ProcessMemory memory;
  private final List<Mapping> mappings;
  private final long bias;
  private final Map<Long, Long> dynamic;

  private DriverLibrary(
      ProcessMemory memory, List<Mapping> mappings, long bias, Map<Long, Long> dynamic) {
    this.memory = memory;
    this.mappings = mappings;
    this.bias = bias;
    this.dynamic = dynamic;
  }

  /**
   * A slot through which the library calls an implementation.
   *
   * @param address of the slot
   * @param target the address in the slot
   * @param returnAddress of the call through the slot
   */
  record Slot(long address, long target, long returnAddress) {}

  /**
   * Finds the copies of libcuda in a process. There may be several, such as one in each linker
   * namespace.
   *
   * @throws NativeCallException if the memory cannot be read
   */
  static List<DriverLibrary> in(ProcessMemory memory, List<Mapping> mappings)
      throws NativeCallException {
    List<DriverLibrary> found = new ArrayList<>();
    List<Mapping> copy = new ArrayList<>();
    for (Mapping each : mappings) {
      if (!NAME.matcher(each.name()).matches()) {
        continue;
      }
      if (each.offset() == 0 && !copy.isEmpty()) {
        of(memory, copy).ifPresent(found::add);
        copy = new ArrayList<>();
      }
      copy.add(each);
    }
    if (!copy.isEmpty()) {
      of(memory, copy).ifPresent(found::add);
    }
    return found;
  }

  /** A file that is mapped without code, as by a debugger, is not a library. */
  private static Optional<DriverLibrary> of(ProcessMemory memory, List<Mapping> mappings)
      throws NativeCallException {
    long base = mappings.get(0).start();
    if (mappings.stream().noneMatch(each -> each.permissions().contains("x"))) {
      return Optional.empty();
    }
    ByteBuffer header = read(memory, base, HEADER);
    int count = header.getShort(56);
    if (header.getInt(0) != ELF
        || header.getShort(18) != X86_64
        || count < 1
        || count > MOST_PROGRAM_HEADERS) {
      return Optional.empty();
    }
    ByteBuffer programs = read(memory, base + header.getLong(32), count * PROGRAM_HEADER);
    OptionalLong bias = OptionalLong.empty();
    Map<Long, Long> dynamic = new HashMap<>();
    for (int at = 0; at < programs.limit(); at += PROGRAM_HEADER) {
      int type = programs.getInt(at);
      long address = programs.getLong(at + 16);
      if (type == PT_LOAD && bias.isEmpty()) {
        bias = OptionalLong.of(base - (address & -4096));
      } else if (type == PT_DYNAMIC && bias.isPresent()) {
        long bytes = Math.min(programs.getLong(at + 40), MOST_DYNAMIC_BYTES);
        ByteBuffer entries = read(memory, bias.getAsLong() + address, (int) bytes);
        while (entries.remaining() >= 16) {
          dynamic.putIfAbsent(entries.getLong(), entries.getLong());
        }
      }
    }
    return bias.isPresent() && dynamic.containsKey(DT_GNU_HASH)
        ? Optional.of(new DriverLibrary(memory, List.copyOf(mappings), bias.getAsLong(), dynamic))
        : Optional.empty();
  }

  private static ByteBuffer read(ProcessMemory memory, long address, int bytes)
      throws NativeCallException {
    return ByteBuffer.wrap(memory.read(address, bytes)).order(ByteOrder.LITTLE_ENDIAN);
  }

  /**
   * Finds an exported function.
   *
   * @return its address; empty if the library does not export it
   * @throws NativeCallException if the memory cannot be read
   */
  OptionalLong function(String name) throws NativeCallException {
    Optional<Code> code = code(name);
    return code.isPresent() ? OptionalLong.of(code.get().start()) : OptionalLong.empty();
  }

  /**
   * The code of an exported function.
   *
   * @param start the address of the function
   * @param end the address after its last byte
   */
  record Code(long start, long end) {

    /** Returns whether a call by the function returns to an address. */
    boolean isReturnedTo(long address) {
      return address > start && address <= end;
    }
  }

  /**
   * Finds the code of an exported function.
   *
   * @return empty if the library does not export it
   * @throws NativeCallException if the memory cannot be read
   */
  Optional<Code> code(String name) throws NativeCallException {
    long table = pointer(DT_GNU_HASH);
    ByteBuffer head = read(memory, table, 16);
    int buckets = head.getInt(0);
    int firstSymbol = head.getInt(4);
    long bucketsAt = table + 16 + 8L * head.getInt(8);
    int hash = hash(name);
    int symbol =
        read(memory, bucketsAt + 4L * Integer.remainderUnsigned(hash, buckets), 4).getInt();
    if (symbol < firstSymbol) {
      return Optional.empty();
    }
    long chainAt = bucketsAt + 4L * buckets;
    while (true) {
      int other = read(memory, chainAt + 4L * (symbol - firstSymbol), 4).getInt();
      if ((other | 1) == (hash | 1)) {
        ByteBuffer entry = read(memory, pointer(DT_SYMTAB) + (long) SYMBOL * symbol, SYMBOL);
        if (isNamed(entry.getInt(0), name)) {
          long start = bias + entry.getLong(8);
          return Optional.of(new Code(start, start + size(entry.getLong(16))));
        }
      }
      if ((other & 1) != 0) {
        return Optional.empty();
      }
      symbol++;
    }
  }

  /** The size of a symbol may be missing. */
  private static long size(long recorded) {
    return recorded > 0 && recorded <= MOST_CODE ? recorded : CODE;
  }

  private boolean isNamed(int offset, String name) throws NativeCallException {
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
   * Finds the slot through which an exported function calls its implementation: the first {@code
   * call *offset(%rip)} of its code.
   *
   * @param function its address
   * @return empty if the code of the function is of an unknown kind
   * @throws NativeCallException if the memory cannot be read
   */
  Optional<Slot> slot(long function) throws NativeCallException {
    ByteBuffer code = read(memory, function, CODE);
    for (int at = 0; at + 6 <= CODE; at++) {
      if (code.get(at) == (byte) 0xff && code.get(at + 1) == 0x15) {
        long behind = function + at + 6;
        long address = behind + code.getInt(at + 2);
        if (address % Long.BYTES == 0 && isIn(address, "rw")) {
          return Optional.of(new Slot(address, memory.readLong(address), behind));
        }
      }
    }
    return Optional.empty();
  }

  /**
   * An imported function.
   *
   * @param slot the address of the library's pointer to the function; a multiple of 8
   * @param target the address in the slot
   */
  record Import(String name, long slot, long target) {}

  /**
   * Finds imported functions in the tables of relocations ({@code R_X86_64_JUMP_SLOT}, {@code
   * R_X86_64_GLOB_DAT}). A function may have several slots.
   *
   * @param names of the functions
   * @throws NativeCallException if the memory cannot be read
   */
  List<Import> imports(Set<String> names) throws NativeCallException {
    Map<Integer, String> symbols = undefined(names);
    List<Import> found = new ArrayList<>();
    addImports(DT_JMPREL, DT_PLTRELSZ, symbols, found);
    addImports(DT_RELA, DT_RELASZ, symbols, found);
    return found;
  }

  /** The symbols before the first with a hash are those that the library does not define. */
  private Map<Integer, String> undefined(Set<String> names) throws NativeCallException {
    int count = read(memory, pointer(DT_GNU_HASH), 8).getInt(4);
    if (count < 1 || count > MOST_UNDEFINED_SYMBOLS) {
      return Map.of();
    }
    ByteBuffer symbols = read(memory, pointer(DT_SYMTAB), count * SYMBOL);
    Map<Integer, String> found = new HashMap<>();
    for (int i = 1; i < count; i++) {
      for (String name : names) {
        if (isNamed(symbols.getInt(i * SYMBOL), name)) {
          found.put(i, name);
        }
      }
    }
    return found;
  }

  private void addImports(long table, long size, Map<Integer, String> symbols, List<Import> found)
      throws NativeCallException {
    long bytes = dynamic.getOrDefault(size, 0L);
    if (symbols.isEmpty() || bytes < RELOCATION || bytes > MOST_RELOCATION_BYTES) {
      return;
    }
    ByteBuffer entries = read(memory, pointer(table), (int) bytes);
    for (int at = 0; at + RELOCATION <= entries.limit(); at += RELOCATION) {
      int type = entries.getInt(at + 8);
      String name = symbols.get(entries.getInt(at + 12));
      long slot = bias + entries.getLong(at);
      if (name != null
          && (type == JUMP_SLOT || type == GLOB_DAT)
          && slot % Long.BYTES == 0
          && found.stream().noneMatch(each -> each.slot() == slot)) {
        found.add(new Import(name, slot, memory.readLong(slot)));
      }
    }
  }

  /** Returns whether an address is in the library's code. */
  boolean isCode(long address) {
    return isIn(address, "r-x");
  }

  private boolean isIn(long address, String permissions) {
    return mappings.stream()
        .filter(each -> each.permissions().startsWith(permissions))
        .anyMatch(each -> each.contains(address));
  }
}
