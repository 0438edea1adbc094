package dev.gpuprocess.internal.populate;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.fixtures.Holder;
import dev.gpuprocess.image.Checksum;
import dev.gpuprocess.internal.handover.CopyLimit;
import dev.gpuprocess.internal.handover.DiskWork;
import dev.gpuprocess.internal.handover.MemoryHandOver;
import dev.gpuprocess.internal.proc.AddressRange;
import dev.gpuprocess.internal.proc.HandedOver;
import dev.gpuprocess.process.ProcessIdentity;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Memory that is mapped from a file is there when whoever reads it comes. */
@RequiresRoot("to trace the process")
class ReadAheadTest {

  private static final int MEBIBYTES = 80;
  private static final Duration LIMIT = Duration.ofSeconds(30);

  private static final DiskWork DISK =
      new DiskWork() {
        @Override
        public <T> T run(Supplier<T> work, Consumer<@Nullable T> undo) {
          return work.get();
        }
      };

  @TempDir Path directory;

  @Test
  void allOfItIsThereAndNothingElseStays() throws IOException {
    try (Holder holder = Holder.launch(MEBIBYTES).notOurChild().start()) {
      ProcessIdentity process = handedOver(holder);
      List<AddressRange> mapped = HandedOver.of(process.pid());
      long bytes = (long) MEBIBYTES << 20;
      assertEquals(bytes, HandedOver.bytes(process.pid()));
      List<String> before = mappings(process.pid());

      String note = ReadAhead.during(process, mapped, () -> {});

      assertTrue(note.startsWith("read ahead by "), note);
      assertEquals(bytes, resident(process.pid()));
      assertEquals(before, mappings(process.pid()));
      assertEquals("ok " + bytes / 4 * 3 + " bytes", holder.verify());
    }
  }

  @Test
  void theRestoreRunsWhereNobodyCanReadAheadAndItsFailureIsThrown() throws IOException {
    try (Holder holder = Holder.launch(MEBIBYTES).start()) {
      ProcessIdentity process = ProcessIdentity.of(holder.pid()).orElseThrow();
      List<AddressRange> gone = List.of(new AddressRange(1 << 20, 2 << 20));
      ProcessIdentity another = new ProcessIdentity(process.pid(), process.startTicks() + 1);
      List<String> calls = new ArrayList<>();

      String note = ReadAhead.during(another, gone, () -> calls.add("restore"));

      assertTrue(note.startsWith("not read ahead: "), note);
      assertEquals(List.of("restore"), calls);
      IllegalStateException failure = new IllegalStateException("the driver");
      assertEquals(
          failure,
          assertThrows(
              IllegalStateException.class,
              () ->
                  ReadAhead.during(
                      process,
                      gone,
                      () -> {
                        throw failure;
                      })));
      assertTrue(holder.verify().startsWith("ok "), "unchanged");
    }
  }

  private ProcessIdentity handedOver(Holder holder) throws IOException {
    ProcessIdentity process = ProcessIdentity.of(holder.pid()).orElseThrow();
    long address = holder.memory();
    AddressRange area = new AddressRange(address, address + ((long) MEBIBYTES << 20));
    new MemoryHandOver(process, 1, List.of(area))
        .run(
            Files.createDirectories(directory.resolve("gpu")),
            false,
            Checksum.CRC32C,
            new CopyLimit(process.pid(), LIMIT, null),
            LIMIT,
            DISK);
    return process;
  }

  private static List<String> mappings(int pid) throws IOException {
    return Files.readAllLines(Path.of("/proc", Integer.toString(pid), "maps"));
  }

  /** How much of the mapped files the process need not ask the kernel for any more. */
  private static long resident(int pid) throws IOException {
    long kibibytes = 0;
    boolean ours = false;
    for (String line : Files.readAllLines(Path.of("/proc", Integer.toString(pid), "smaps"))) {
      if (line.matches("[0-9a-f]+-[0-9a-f]+ .*")) {
        ours = line.endsWith("/memory-1.bin");
      } else if (ours && line.startsWith("Rss:")) {
        kibibytes += Long.parseLong(line.replaceAll("[^0-9]", ""));
      }
    }
    return kibibytes << 10;
  }
}
