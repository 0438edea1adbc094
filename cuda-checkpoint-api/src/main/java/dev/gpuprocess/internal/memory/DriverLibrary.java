package dev.gpuprocess.internal.memory;

import dev.gpuprocess.internal.proc.Mapping;
import dev.gpuprocess.internal.target.MappedLibrary;
import dev.gpuprocess.internal.target.TargetMemory;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Set;
import java.util.regex.Pattern;

/**
 * A libcuda that a process has mapped. It is read from the memory of the process, so its file may
 * have been deleted or replaced, or be in a container.
 *
 * <p>Each exported function of libcuda calls its implementation through a slot: eight bytes in the
 * library's data.
 */
final class DriverLibrary {

  private static final Pattern NAME =
      Pattern.compile(".*/libcuda\\.so(\\.[0-9.]+)?( \\(deleted\\))?");

  /** The call is within the first 48 bytes of driver 580's functions of up to six parameters. */
  private static final int CODE = 96;

  private static final int MOST_CODE = 4096;

  /** A library has a mapping for each segment, and some more where pages were made writable. */
  private static final int MOST_MAPPINGS = 1024;

  private final TargetMemory memory;
  private final List<Mapping> mappings;
  private final MappedLibrary tables;

  private DriverLibrary(TargetMemory memory, List<Mapping> mappings, MappedLibrary tables) {
    this.memory = memory;
    this.mappings = mappings;
    this.tables = tables;
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
   * @throws dev.gpuprocess.internal.target.UnknownKindException if the tables of one cannot be used
   * @throws IOException if the memory cannot be read
   */
  static List<DriverLibrary> in(TargetMemory memory, List<Mapping> mappings) throws IOException {
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
  private static Optional<DriverLibrary> of(TargetMemory memory, List<Mapping> mappings)
      throws IOException {
    if (mappings.stream().noneMatch(each -> each.permissions().contains("x"))) {
      return Optional.empty();
    }
    if (mappings.size() > MOST_MAPPINGS) {
      throw memory.unknown("it has %s mappings".formatted(mappings.size()));
    }
    MappedLibrary tables = MappedLibrary.at(memory, mappings.get(0).start());
    return Optional.of(new DriverLibrary(memory, List.copyOf(mappings), tables));
  }

  /**
   * Finds an exported function.
   *
   * @return its address; empty if the library does not export it
   * @throws dev.gpuprocess.internal.target.UnknownKindException if its tables cannot be used
   * @throws IOException if the memory cannot be read
   */
  OptionalLong function(String name) throws IOException {
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
   * @throws dev.gpuprocess.internal.target.UnknownKindException if its tables cannot be used
   * @throws IOException if the memory cannot be read
   */
  Optional<Code> code(String name) throws IOException {
    return tables
        .function(name)
        .map(found -> new Code(found.address(), found.address() + size(found.bytes())));
  }

  /** The size of a symbol may be missing. */
  private static long size(long recorded) {
    return recorded > 0 && recorded <= MOST_CODE ? recorded : CODE;
  }

  /**
   * Finds imported functions.
   *
   * @param names of the functions
   * @throws dev.gpuprocess.internal.target.UnknownKindException if its tables cannot be used
   * @throws IOException if the memory cannot be read
   */
  List<MappedLibrary.Import> imports(Set<String> names) throws IOException {
    return tables.imports(names);
  }

  /**
   * Finds the slot through which an exported function calls its implementation: the first {@code
   * call *offset(%rip)} of its code.
   *
   * @param function its address
   * @return empty if the code of the function is of an unknown kind
   * @throws IOException if the memory cannot be read
   */
  Optional<Slot> slot(long function) throws IOException {
    ByteBuffer code = memory.buffer(function, CODE);
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
