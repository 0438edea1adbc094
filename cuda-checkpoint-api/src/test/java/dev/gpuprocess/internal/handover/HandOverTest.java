package dev.gpuprocess.internal.handover;

import static java.util.Comparator.comparingLong;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeFalse;

import dev.gpuprocess.contract.ErrorText;
import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.contract.TmpFs;
import dev.gpuprocess.error.OperationCancelledException;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.fixtures.Holder;
import dev.gpuprocess.image.Checksum;
import dev.gpuprocess.image.ImageFile;
import dev.gpuprocess.internal.proc.AddressRange;
import dev.gpuprocess.internal.proc.HandedOver;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.store.RunningChecksum;
import dev.gpuprocess.options.Cancellation;
import dev.gpuprocess.process.ProcessIdentity;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import java.util.function.Supplier;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Memory of a process that checks and writes it all the time goes into a file and comes back. */
@RequiresRoot("to trace the process")
class HandOverTest {

  private static final int MEBIBYTES = 80;
  private static final Duration LIMIT = Duration.ofSeconds(30);

  /** Runs at once; nothing hangs here. */
  private static final DiskWork DISK =
      new DiskWork() {
        @Override
        public <T> T run(Supplier<T> work, Consumer<@Nullable T> undo) {
          return work.get();
        }
      };

  @TempDir Path directory;
  private Holder holder;
  private AddressRange area;

  @BeforeEach
  void start() {
    begin(Holder.launch(MEBIBYTES).notOurChild().start());
  }

  private void begin(Holder started) {
    holder = started;
    long address = holder.memory();
    area = new AddressRange(address, address + ((long) MEBIBYTES << 20));
  }

  @AfterEach
  void end() {
    holder.close();
  }

  private Path gpu() throws IOException {
    return Files.createDirectories(directory.resolve("gpu"));
  }

  private MemoryHandOver planned() {
    return new MemoryHandOver(identity(), 1, List.of(area));
  }

  private ProcessIdentity identity() {
    return ProcessIdentity.of(holder.pid()).orElseThrow();
  }

  private static void run(MemoryHandOver planned, Path directory, boolean direct)
      throws IOException {
    run(planned, directory, direct, LIMIT, null);
  }

  private static void run(
      MemoryHandOver planned,
      Path directory,
      boolean direct,
      Duration time,
      @Nullable Cancellation cancellation)
      throws IOException {
    CopyLimit limit = new CopyLimit(1, time, cancellation);
    planned.run(directory, direct, Checksum.CRC32C, limit, LIMIT, DISK);
  }

  /** The files that are mapped in the area, and empty names for memory. */
  private List<String> names() {
    List<String> names = new ArrayList<>();
    ProcFs.memory(
        holder.pid(),
        mapping -> {
          if (mapping.isPrivateWritable() && mapping.addresses().and(area).isPresent()) {
            names.add(mapping.name());
          }
        });
    return names;
  }

  private void assertIsWhole() {
    assertEquals("ok " + ((long) MEBIBYTES << 20) / 4 * 3 + " bytes", holder.verify());
    long rounds = holder.rounds();
    while (holder.rounds() < rounds + 4) {
      Thread.onSpinWait();
    }
  }

  @Test
  void theFileHasTheMemoryAndTheProcessGoesOn() throws IOException {
    for (boolean direct : new boolean[] {true, false}) {
      Path gpu = Files.createDirectories(directory.resolve(direct + "/gpu"));
      MemoryHandOver planned = planned();

      run(planned, gpu, direct);

      Path file = gpu.resolve("memory-1.bin");
      assertEquals(List.of(file.toRealPath().toString()), names());
      assertEquals(sums(file), planned.file().orElseThrow().chunks());
      assertEquals(area.bytes(), planned.file().orElseThrow().bytes());
      assertEquals(List.of(area.toString()), planned.memory().orElseThrow().ranges());
      assertIsWhole();
    }
  }

  private static List<String> sums(Path file) throws IOException {
    byte[] content = Files.readAllBytes(file);
    List<String> sums = new ArrayList<>();
    int chunk = Math.toIntExact(ImageFile.CHUNK_BYTES);
    for (int at = 0; at < content.length; at += chunk) {
      RunningChecksum sum = RunningChecksum.of(Checksum.CRC32C);
      sum.add(ByteBuffer.wrap(content, at, Math.min(chunk, content.length - at)));
      sums.add(sum.text());
    }
    return sums;
  }

  /**
   * Two parts of the memory, pieces that end in the middle of both, and chunks with both in them.
   */
  @Test
  void severalRangesGoIntoOneFilePieceByPiece() throws Exception {
    List<AddressRange> parts =
        List.of(
            new AddressRange(area.start(), area.start() + (35 << 20)),
            new AddressRange(area.start() + (36 << 20), area.end()));
    Path file = gpu().resolve("memory-1.bin");
    CopyLimit limit = new CopyLimit(identity().pid(), LIMIT, null);
    HandOver handOver =
        new HandOver(
            identity().pid(), parts, file, true, Checksum.CRC32C, limit, ImageFile.CHUNK_BYTES);

    Holding.during(identity(), LIMIT, held -> handOver.run(held, DISK));

    assertEquals(parts, handOver.mapped());
    assertEquals(sums(file), handOver.file(Checksum.CRC32C).chunks());
    assertEquals(List.of(file.toRealPath().toString(), "", file.toRealPath().toString()), names());
    assertIsWhole();
    Holding.during(
        identity(), LIMIT, held -> new PutBack(identity().pid(), held).run(handOver.mapped()));
    assertEquals(Set.of(""), Set.copyOf(names()));
    assertIsWhole();
  }

  @Test
  void memoryIsPutBackWithWhatWasWrittenMeanwhile() throws IOException {
    MemoryHandOver planned = planned();
    run(planned, gpu(), false);
    assertIsWhole();
    Files.delete(gpu().resolve("memory-1.bin"));

    planned.putBack(LIMIT);

    assertEquals(List.of(""), names());
    assertIsWhole();
    assertEquals(0, HandedOver.bytes(identity().pid()));
  }

  @Test
  void whatAnEarlierImageMapsIsHandedOverAgain() throws IOException {
    run(planned(), gpu(), false);
    Path second = Files.createDirectories(directory.resolve("second/gpu"));
    MemoryHandOver again = new MemoryHandOver(identity(), 1, List.of());
    assertEquals(area.bytes(), again.bytes());
    Files.delete(gpu().resolve("memory-1.bin"));

    run(again, second, false);

    assertEquals(List.of(second.resolve("memory-1.bin").toRealPath().toString()), names());
    assertIsWhole();
  }

  /** The area that the process changes when it is told to, see {@code churn.h}. */
  private AddressRange placed(String... questions) {
    for (String question : questions) {
      assertTrue(holder.ask("area " + question).matches("ok|[0-9]+"), question);
    }
    long start = Long.parseLong(holder.ask("area where"), 16);
    return new AddressRange(start, start + (8 << 20));
  }

  private void assertAreaIsRight() {
    assertEquals("ok 0", holder.ask("churned"));
  }

  private void assertNotHandedOver(MemoryHandOver planned, String why) throws IOException {
    Path gpu = gpu();
    NotHeldException e = assertThrows(NotHeldException.class, () -> run(planned, gpu, false));
    assertTrue(e.getMessage().contains(why), e.getMessage());
    assertEquals(0, HandedOver.bytes(identity().pid()));
    assertAreaIsRight();
    assertIsWhole();
  }

  @ParameterizedTest
  @ValueSource(strings = {"shared", "gone", "policy"})
  void whatChangesBeforeTheProcessIsHeldIsLeftOut(String change) throws IOException {
    List<AddressRange> both =
        Stream.of(area, placed("private 8")).sorted(comparingLong(AddressRange::start)).toList();
    MemoryHandOver planned = new MemoryHandOver(identity(), 1, both);
    assertEquals(area.bytes() + (8 << 20), planned.bytes());
    placed(change);

    run(planned, gpu(), false);

    assertEquals(area.bytes(), planned.bytes());
    assertEquals(List.of(area.toString()), planned.memory().orElseThrow().ranges());
    assertAreaIsRight();
    assertIsWhole();
  }

  @Test
  void whatIsAllGoneIsNotHandedOver() throws IOException {
    MemoryHandOver planned = new MemoryHandOver(identity(), 1, List.of(placed("private 8")));
    placed("gone");
    assertNotHandedOver(planned, "is not there any more");
  }

  @ParameterizedTest
  @ValueSource(strings = {"shared", "gone"})
  void whatTheProcessMapsOverTheFileStays(String change) throws IOException {
    MemoryHandOver planned = new MemoryHandOver(identity(), 1, List.of(placed("private 8")));
    run(planned, gpu(), false);
    placed(change);

    planned.putBack(LIMIT);

    assertAreaIsRight();
    assertIsWhole();
  }

  @Test
  void aProcessWithTheSameMemoryWouldWriteItMeanwhile() throws IOException {
    AddressRange written = placed("private 8", "writer");
    assertNotHandedOver(
        new MemoryHandOver(identity(), 1, List.of(written)), "has the same memory as process");
  }

  @ParameterizedTest
  @ValueSource(strings = {"io_uring", "aio"})
  void theKernelMightWriteItMeanwhile(String what) throws IOException {
    assumeFalse(holder.ask(what).startsWith("error"), "this kernel has no " + what);
    assertNotHandedOver(planned(), "uses asynchronous I/O");
  }

  @Test
  void aForkedChildGetsMemoryOfItsOwn() throws IOException {
    MemoryHandOver planned = new MemoryHandOver(identity(), 1, List.of(placed("private 8")));
    run(planned, gpu(), false);
    int child = Integer.parseInt(holder.ask("area worker"));
    assertEquals(8 << 20, HandedOver.bytes(child));

    MemoryHandOver.takeBackInTree(identity(), LIMIT);

    assertEquals(0, HandedOver.bytes(child));
    assertEquals(0, HandedOver.bytes(identity().pid()));
    assertTrue(ProcessHandle.of(child).isPresent(), "it finds its memory right");
    assertAreaIsRight();
    assertIsWhole();
  }

  @Test
  void nothingStaysOpenInTheProcess() throws IOException {
    List<String> before = open();
    MemoryHandOver planned = planned();
    run(planned, gpu(), false);
    assertEquals(before, open());
    planned.putBack(LIMIT);
    assertEquals(before, open());
  }

  private List<String> open() {
    List<String> names = new ArrayList<>();
    ProcFs.openFiles(holder.pid(), file -> names.add(file.target()));
    return names;
  }

  @Test
  void aFullDiskLeavesTheProcessItsMemory() throws IOException {
    Path full = Files.createDirectories(directory.resolve("full"));
    try (TmpFs small = TmpFs.mount(full, "size=20m")) {
      Path gpu = Files.createDirectories(small.point().resolve("gpu"));
      FileSystemException e =
          assertThrows(FileSystemException.class, () -> run(planned(), gpu, true));
      assertTrue(e.getReason().contains(ErrorText.ENOSPC), e.getReason());
      assertEquals(List.of(""), names());
      assertIsWhole();
    }
  }

  /** The first work is making the file, and each piece is another. */
  @ParameterizedTest
  @ValueSource(ints = {0, 2, 3})
  void theDiskMayFailAtAnyPiece(int works) throws Exception {
    Path file = gpu().resolve("memory-1.bin");
    int pid = identity().pid();
    CopyLimit limit = new CopyLimit(pid, LIMIT, null);
    HandOver handOver =
        new HandOver(
            pid, List.of(area), file, false, Checksum.CRC32C, limit, ImageFile.CHUNK_BYTES);
    AtomicInteger left = new AtomicInteger(works);
    DiskWork failing =
        new DiskWork() {
          @Override
          public <T> T run(Supplier<T> work, Consumer<@Nullable T> undo) {
            if (left.getAndDecrement() == 0) {
              throw new UncheckedIOException(new IOException("it is a test"));
            }
            return work.get();
          }
        };

    assertThrows(
        IOException.class,
        () -> Holding.during(identity(), LIMIT, held -> handOver.run(held, failing)));

    // A piece is synced and mapped while the next one is copied: either may be what fails.
    int most = Math.max(0, works - 1);
    assertTrue(handOver.mapped().size() <= most, () -> handOver.mapped() + " of " + most);
    assertIsWhole();
    Files.deleteIfExists(file);
    Holding.during(identity(), LIMIT, held -> new PutBack(pid, held).run(handOver.mapped()));
    assertEquals(Set.of(""), Set.copyOf(names()));
    assertIsWhole();
  }

  @Test
  void aFileInMemoryIsFilledThroughAMapping() throws IOException {
    Path memory = Files.createDirectories(directory.resolve("memory"));
    for (String options : List.of("size=200m", "size=200m,huge=always")) {
      try (TmpFs mounted = TmpFs.mount(memory, options)) {
        Path gpu = Files.createDirectories(mounted.point().resolve("gpu"));
        MemoryHandOver planned = planned();
        run(planned, gpu, true);
        assertEquals(
            sums(gpu.resolve("memory-1.bin")), planned.file().orElseThrow().chunks(), options);
        assertIsWhole();
        planned.putBack(LIMIT);
        assertEquals(List.of(), mapped("memory-1.bin"));
      }
    }
  }

  /** What this JVM maps whose name ends so. */
  private static List<String> mapped(String name) {
    List<String> names = new ArrayList<>();
    ProcFs.memory(
        ProcessHandle.current().pid(),
        mapping -> {
          if (mapping.name().endsWith(name)) {
            names.add(mapping.name());
          }
        });
    return names;
  }

  /** There is room when the file is made; then somebody else fills the file system. */
  @Test
  void aTmpfsThatBecomesFullLeavesTheProcessItsMemoryAndThisJvmWhole() throws IOException {
    Path full = Files.createDirectories(directory.resolve("full"));
    try (TmpFs small = TmpFs.mount(full, "size=100m")) {
      Path gpu = Files.createDirectories(small.point().resolve("gpu"));
      Path other = small.point().resolve("other");
      DiskWork filling =
          new DiskWork() {
            @Override
            public <T> T run(Supplier<T> work, Consumer<@Nullable T> undo) {
              T done = work.get();
              fill(other, 60 << 20);
              return done;
            }
          };
      MemoryHandOver planned = planned();
      CopyLimit limit = new CopyLimit(1, LIMIT, null);
      FileSystemException e =
          assertThrows(
              FileSystemException.class,
              () -> planned.run(gpu, true, Checksum.CRC32C, limit, LIMIT, filling));
      assertTrue(e.getReason().contains(ErrorText.ENOSPC), e.getReason());
      assertEquals(List.of(""), names());
      assertEquals(List.of(), mapped("memory-1.bin"));
      assertIsWhole();
    }
  }

  private static void fill(Path file, int bytes) {
    try {
      Files.write(file, new byte[bytes]);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  @Test
  void itEndsInTimeAndWhenItIsCancelled() throws IOException {
    Cancellation cancelled = new Cancellation();
    cancelled.cancel();
    Path gpu = gpu();
    assertThrows(
        OperationCancelledException.class, () -> run(planned(), gpu, false, LIMIT, cancelled));
    Files.delete(gpu.resolve("memory-1.bin"));
    assertThrows(
        OperationTimedOutException.class,
        () -> run(planned(), gpu, false, Duration.ofNanos(1), null));
    assertEquals(List.of(""), names());
    assertIsWhole();
  }

  @Test
  void aChildOfThisJvmIsNotHeld() throws IOException {
    holder.close();
    begin(Holder.launch(MEBIBYTES).start());
    Path gpu = gpu();
    NotHeldException e = assertThrows(NotHeldException.class, () -> run(planned(), gpu, false));
    assertTrue(e.getMessage().contains("was started by this JVM"), e.getMessage());
    assertEquals(List.of(""), names());
    assertIsWhole();
  }
}
