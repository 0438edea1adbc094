package dev.gpuprocess.internal.memory;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.Figures;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.internal.proc.Mapping;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.target.MappedLibrary;
import dev.gpuprocess.internal.target.TargetMemory;
import dev.gpuprocess.internal.target.UnknownKindException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Random;
import java.util.Set;
import java.util.function.Consumer;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** A libcuda whose tables the process has changed. */
class LibcudaTablesTest {

  /** The number of mutated libraries; more: {@code -Dgpuprocess.tables.inputs=10000000}. */
  private static final int INPUTS = Integer.getInteger("gpuprocess.tables.inputs", 100_000);

  private static final long SEED = Long.getLong("gpuprocess.tables.seed", 20_261_201L);

  /** So many are read in a tenth of a second. */
  private static final int CHUNK = 1000;

  private static final Duration PATIENCE = Duration.ofMinutes(3);

  private static final long STRTAB = 5;
  private static final long SYMTAB = 6;
  private static final long PLTRELSZ = 2;
  private static final long RELA = 7;
  private static final long RELASZ = 8;
  private static final long JMPREL = 23;
  private static final long GNU_HASH = 0x6ffffef5L;

  private static final long[] NUMBERS = {
    0,
    1,
    -1,
    2,
    63,
    64,
    65,
    255,
    256,
    4095,
    4096,
    65_535,
    65_536,
    -4096,
    Integer.MAX_VALUE,
    Integer.MIN_VALUE,
    0xffff_ffffL,
    Long.MAX_VALUE,
    Long.MIN_VALUE,
    64L << 20,
    LibraryInMemory.BASE,
    LibraryInMemory.ZEROS,
    LibraryInMemory.RELOCATIONS,
  };

  private static LibraryInMemory libcuda;
  private static List<LibraryInMemory> libraries;

  private final Set<String> raw = new HashSet<>();
  private int read;
  private int unknown;

  @BeforeAll
  static void load() throws IOException {
    try (SimulatedDriver machine = SimulatedDriver.create()) {
      libcuda = new LibraryInMemory(machine.libcuda());
    }
    String libc =
        ProcFs.memory(ProcessHandle.current().pid()).stream()
            .map(Mapping::name)
            .filter(name -> name.contains("libc.so") || name.contains("ld-musl"))
            .findFirst()
            .orElseThrow();
    libraries = List.of(libcuda, new LibraryInMemory(Path.of(libc)));
  }

  @AfterAll
  static void undo() {
    libraries.forEach(LibraryInMemory::undo);
  }

  /** All that a gate and a hook read of a library. */
  private static List<Object> tables(LibraryInMemory library) throws IOException {
    List<Object> all = new ArrayList<>();
    TargetMemory memory = new TargetMemory("a test", library);
    for (DriverLibrary each : DriverLibrary.in(memory, library.mappings())) {
      for (String name : List.of("cuInit", "cuStreamQuery", "cuMemGetInfo_v2", "memcpy", "none")) {
        OptionalLong function = each.function(name);
        all.add(function);
        if (function.isPresent()) {
          all.add(each.slot(function.getAsLong()));
        }
      }
      all.add(each.imports(Set.copyOf(HookPages.FUNCTIONS)));
    }
    return all;
  }

  private static List<MappedLibrary.Import> imports(LibraryInMemory library) throws IOException {
    return DriverLibrary.in(new TargetMemory("a test", library), library.mappings())
        .get(0)
        .imports(Set.copyOf(HookPages.FUNCTIONS));
  }

  @Test
  void whatIsNotChanged_isRead() throws IOException {
    DriverLibrary library =
        DriverLibrary.in(new TargetMemory("a test", libcuda), libcuda.mappings()).get(0);
    long query = library.function("cuStreamQuery").orElseThrow();
    assertTrue(library.isCode(query));
    assertTrue(library.code("cuStreamQuery").orElseThrow().isReturnedTo(query + 1));
    assertTrue(library.slot(query).isPresent());
    assertEquals(OptionalLong.empty(), library.function("cuNone"));
    assertTrue(imports(libcuda).stream().anyMatch(each -> each.name().equals("memcpy")));
    assertFalse(tables(libraries.get(1)).isEmpty());
  }

  /** The kinds of library that a hostile process makes by hand. */
  private static Map<String, Consumer<LibraryInMemory>> made() {
    Map<String, Consumer<LibraryInMemory>> made = new LinkedHashMap<>();
    made.put("no magic number", elf -> elf.put(0, 4, 0));
    made.put("65535 segments", elf -> elf.put(56, 2, 65_535));
    made.put("segments of no bytes", elf -> elf.put(54, 2, 0));
    made.put("segments at the end of memory", elf -> elf.put(32, 8, -1));
    made.put("a dynamic table of a negative size", elf -> setDynamicSize(elf, -4096));
    made.put("no dynamic table", elf -> setDynamicSize(elf, 0));
    made.put("no buckets", elf -> elf.put(elf.table(GNU_HASH), 4, 0));
    made.put("a negative number of buckets", elf -> elf.put(elf.table(GNU_HASH), 4, -1));
    made.put(
        "a chain without end",
        elf -> {
          int hash = elf.table(GNU_HASH);
          elf.put(hash, 4, Integer.MAX_VALUE);
          elf.put(hash + 4, 4, 0);
          elf.put(hash + 8, 4, Integer.MAX_VALUE); // the buckets are zeros
        });
    made.put(
        "a symbol with the greatest number",
        elf -> {
          int hash = elf.table(GNU_HASH);
          elf.put(hash, 4, 1);
          elf.put(hash + 4, 4, 0);
          elf.put(hash + 8, 4, 0);
          elf.put(hash + 16, 4, Integer.MAX_VALUE);
        });
    made.put("2^31 imported symbols", elf -> elf.put(elf.table(GNU_HASH) + 4, 4, -1));
    made.put("a million imported symbols", elf -> elf.put(elf.table(GNU_HASH) + 4, 4, 1 << 20));
    made.put("symbols elsewhere", elf -> elf.put(elf.valueOf(SYMTAB), 8, -4096));
    made.put("names elsewhere", elf -> elf.put(elf.valueOf(STRTAB), 8, 1L << 62));
    made.put("relocations of 2^64 bytes", elf -> elf.put(elf.valueOf(PLTRELSZ), 8, -1));
    made.put("relocations of 2^63 bytes", elf -> elf.put(elf.valueOf(RELASZ), 8, Long.MAX_VALUE));
    made.put("relocations elsewhere", elf -> elf.put(elf.valueOf(RELA), 8, 1L << 62));
    made.put(
        "2.7 million relocations of memcpy",
        elf -> {
          elf.relocate(numberOf(elf, "memcpy"));
          elf.put(elf.valueOf(JMPREL), 8, LibraryInMemory.RELOCATIONS);
          elf.put(elf.valueOf(PLTRELSZ), 8, 64 << 20);
        });
    return made;
  }

  private static void setDynamicSize(LibraryInMemory elf, long bytes) {
    for (int i = 0; ; i++) {
      int at = 64 + i * 56;
      if (number(elf, at) == 2) {
        elf.put(at + 40, 8, bytes);
        return;
      }
    }
  }

  private static int numberOf(LibraryInMemory elf, String name) {
    for (int i = 1; ; i++) {
      int at = elf.table(STRTAB) + number(elf, elf.table(SYMTAB) + i * 24);
      if (text(elf, at, name.length() + 1).equals(name + '\0')) {
        return i;
      }
    }
  }

  private static int number(LibraryInMemory elf, int at) {
    String bytes = text(elf, at, 4);
    return bytes.charAt(0)
        | (bytes.charAt(1) << 8)
        | (bytes.charAt(2) << 16)
        | (bytes.charAt(3) << 24);
  }

  private static String text(LibraryInMemory elf, int at, int count) {
    try {
      return new String(elf.read(LibraryInMemory.BASE + at, count), StandardCharsets.ISO_8859_1);
    } catch (IOException e) {
      throw new IllegalStateException(e);
    }
  }

  @Test
  void whatIsMadeByHand_isOfAnUnknownKind() {
    made()
        .forEach(
            (name, change) -> {
              change.accept(libcuda);
              try {
                assertThrows(
                    IOException.class,
                    () -> assertTimeoutPreemptively(PATIENCE, () -> tables(libcuda)),
                    name);
              } finally {
                libcuda.undo();
              }
            });
  }

  @Test
  void endlessTables_areSaidToBeOfAnUnknownKind() {
    for (String name :
        List.of(
            "a chain without end",
            "2.7 million relocations of memcpy",
            "no buckets",
            "65535 segments")) {
      made().get(name).accept(libcuda);
      try {
        UnknownKindException e =
            assertThrows(UnknownKindException.class, () -> tables(libcuda), name);
        assertTrue(e.getMessage().startsWith("libcuda of a test is of an unknown kind: "), name);
      } finally {
        libcuda.undo();
      }
    }
  }

  @Test
  void everyMappingOfThousands_isNotSearchedForEachFunction() {
    List<Mapping> many = new ArrayList<>(libcuda.mappings());
    Mapping last = many.get(many.size() - 1);
    for (int i = 0; i < 65_000; i++) {
      many.add(last);
    }
    assertThrows(
        UnknownKindException.class,
        () -> DriverLibrary.in(new TargetMemory("a test", libcuda), many));
  }

  @Test
  void mutatedTables_areReadOrOfAnUnknownKind() {
    int inputs = 0;
    for (int first = 0; first < INPUTS; first += CHUNK) {
      int from = first;
      int count = Math.min(CHUNK, INPUTS - first);
      assertTimeoutPreemptively(
          PATIENCE,
          () -> {
            for (int i = 0; i < count; i++) {
              mutated(from + i);
            }
          },
          () -> "an input after number " + from + " of seed " + SEED + " does not end");
      inputs += count;
    }
    Figures.add(
        "libcuda tables: %s inputs, 0 hangs, %s raw exceptions".formatted(inputs, raw.size()));
    assertEquals(Set.of(), raw);
    assertTrue(read > INPUTS / 50, "some changes are harmless: " + read);
    assertTrue(unknown > INPUTS / 50, "some changes are not: " + unknown);
  }

  private void mutated(int number) {
    Random random = new Random(SEED + number);
    LibraryInMemory library = libraries.get(number % libraries.size());
    mutate(library, random);
    try {
      tables(library);
      read++;
    } catch (IOException e) {
      unknown++;
    } catch (RuntimeException | Error e) {
      raw.add("input %s of seed %s: %s".formatted(number, SEED, e));
    } finally {
      library.undo();
    }
  }

  private static void mutate(LibraryInMemory library, Random random) {
    int changes = 1 + random.nextInt(4);
    for (int i = 0; i < changes; i++) {
      long field = library.fields().get(random.nextInt(library.fields().size()));
      switch (random.nextInt(8)) {
        case 0 -> library.flip(random.nextInt(library.size()), random.nextInt(8));
        case 1, 2 -> library.flip(field, random.nextInt(8));
        case 3 -> library.put(field, 1 << random.nextInt(4), random.nextLong());
        case 4 -> library.truncate(random.nextInt(library.size()));
        case 5 -> library.changeEach(1 + random.nextInt(200), random);
        default ->
            library.put(field, 1 << random.nextInt(4), NUMBERS[random.nextInt(NUMBERS.length)]);
      }
    }
  }
}
