package dev.gpuprocess.internal.handover;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.error.OperationCancelledException;
import dev.gpuprocess.internal.os.DirectoryMaker;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.options.Cancellation;
import java.io.IOException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class SpoolTest {

  private static final Path SHARED_MEMORY = Path.of("/dev/shm");
  private static final Duration LONG = Duration.ofMinutes(1);

  @TempDir Path directory;

  private static CopyLimit limit(@Nullable Cancellation cancellation) {
    return new CopyLimit(1, LONG, cancellation);
  }

  private static List<Path> in(Path place) throws IOException {
    try (Stream<Path> files = Files.list(place)) {
      return files.toList();
    }
  }

  private Path place() throws IOException {
    return Files.createDirectories(directory.resolve("place"));
  }

  private Path image() throws IOException {
    return Files.createDirectories(directory.resolve("image"));
  }

  /** More than a buffer, and no whole number of them. */
  private static byte[] content() {
    byte[] content = new byte[(1 << 20) + (1 << 16)];
    new Random(1).nextBytes(content);
    return content;
  }

  @Test
  void itsFileGoesToTheDiskWithoutANameAndNothingIsLeft() throws IOException {
    byte[] content = content();
    try (Spool spool = Spool.make(place(), 1)) {
      Path made = spool.memoryDirectory();
      assertEquals(
          "rwx------",
          PosixFilePermissions.toString(Files.getPosixFilePermissions(made.getParent())));
      Files.write(made.resolve("memory-1.bin"), content);
      spool.keep();
      spool.hide();
      assertEquals(List.of(), in(place()));
      spool.copyTo(image(), content.length, limit(null));
    }
    assertArrayEquals(content, Files.readAllBytes(image().resolve("memory-1.bin")));
  }

  @Test
  void aCopyCanBeCancelled_andAShorterFileIsNoticed() throws IOException {
    byte[] content = content();
    try (Spool spool = Spool.make(place(), 1)) {
      Files.write(spool.memoryDirectory().resolve("memory-1.bin"), content);
      spool.keep();
      spool.hide();
      Cancellation cancellation = new Cancellation();
      cancellation.cancel();
      assertThrows(
          OperationCancelledException.class,
          () -> spool.copyTo(image(), content.length, limit(cancellation)));
      Files.delete(image().resolve("memory-1.bin"));
      assertThrows(
          FileSystemException.class,
          () -> spool.copyTo(image(), content.length + 4096, limit(null)));
    }
  }

  @Test
  void whatOthersCouldReplaceIsNotUsed() throws IOException {
    Files.setPosixFilePermissions(place(), PosixFilePermissions.fromString("rwxrwxrwx"));
    IOException e = assertThrows(IOException.class, () -> Spool.make(place(), 1));
    assertTrue(e.getMessage().contains("can be written by others"), e.getMessage());
    assertEquals(List.of(), in(place()));
    assertThrows(IOException.class, () -> Spool.make(directory.resolve("missing"), 1));
  }

  @Test
  void whatTheDeadLeftIsRemovedAndNothingElse() throws IOException {
    String living = DirectoryMaker.temporaryName("spool");
    // No process that started then has this pid.
    String dead = living.replaceFirst("-[0-9]+(-[0-9a-f]{8})$", "-1$1");
    String log = dead.replace("-spool-", "-dump-");
    for (String name : List.of(living, dead, log)) {
      Files.createDirectories(place().resolve(name).resolve("gpu"));
    }
    Spool.removeAbandoned(place());
    assertTrue(Files.exists(place().resolve(living)));
    assertFalse(Files.exists(place().resolve(dead)));
    assertTrue(Files.exists(place().resolve(log)));
    Spool.removeAbandoned(directory.resolve("missing"));
  }

  @Test
  void roomIsAskedOfPlaceMachineAndControlGroup() throws IOException {
    int self = Math.toIntExact(ProcessHandle.current().pid());
    int parent = ProcFs.stat(self).orElseThrow().parent();
    Path memory = Files.writeString(directory.resolve("meminfo"), "MemAvailable: 300000 kB\n");
    assertEquals(
        Optional.of(directory + " is not in memory (tmpfs)"),
        SpoolRoom.obstacle(directory, Map.of(self, 1L << 20), memory));
    assertEquals(
        Optional.empty(), SpoolRoom.obstacle(SHARED_MEMORY, Map.of(self, 1L << 20), memory));
    assertEquals(
        Optional.of("this machine has 292 MiB of memory left, and 356 MiB are needed"),
        SpoolRoom.obstacle(SHARED_MEMORY, Map.of(self, 100L << 20), memory));
    assertEquals(
        Optional.of("this machine has 292 MiB of memory left, and 320 MiB are needed"),
        SpoolRoom.obstacle(SHARED_MEMORY, Map.of(self, 32L << 20, parent, 32L << 20), memory),
        "that of all");
    String full = SpoolRoom.obstacle(SHARED_MEMORY, Map.of(self, 1L << 50), memory).orElseThrow();
    assertTrue(full.startsWith("/dev/shm has "), full);
    assertTrue(
        SpoolRoom.obstacle(directory.resolve("missing"), Map.of(self, 1L), memory).isPresent());
  }
}
