package dev.gpuprocess.internal.linux;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.ErrorText;
import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.contract.TmpFs;
import dev.gpuprocess.internal.call.BoundedCall;
import dev.gpuprocess.internal.time.Deadline;
import java.io.IOException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CountDownLatch;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Files that are written in large blocks, on a disk and in memory. */
class BlockFileTest {

  private static final int BLOCK = 1 << 20;

  @TempDir Path directory;

  private static AlignedBuffer block(int value) {
    AlignedBuffer block = AlignedBuffer.allocate(BLOCK);
    byte[] content = new byte[BLOCK];
    Arrays.fill(content, (byte) value);
    block.first(BLOCK).put(content);
    return block;
  }

  @Test
  void aWriteAfterCloseFails() throws IOException {
    BlockFile file = BlockFile.create(directory.resolve("file"), true);
    file.write(block(1), BLOCK, 0);
    file.close();
    file.close();

    CompletableFuture<Void> late =
        CompletableFuture.runAsync(
            () -> {
              try {
                file.write(block(2), BLOCK, 0);
              } catch (FileSystemException e) {
                throw new CompletionException(e);
              }
            });

    CompletionException refused = assertThrows(CompletionException.class, late::join);
    FileSystemException why = assertInstanceOf(FileSystemException.class, refused.getCause());
    assertEquals("was closed", why.getReason());
  }

  @Test
  @RequiresRoot("mounts a tmpfs")
  void aFileInMemoryIsWrittenInsideAndOutsideOfItsMapping() throws IOException {
    Path point = Files.createDirectories(directory.resolve("memory"));
    try (TmpFs tmpfs = TmpFs.mount(point, "size=8m")) {
      Path path = tmpfs.point().resolve("file");
      try (BlockFile file = BlockFile.create(path, true)) {
        assertTrue(file.isInMemory());
        assertFalse(file.isDirect());
        file.reserve(4L * BLOCK);
        file.prepare(BLOCK, 3L * BLOCK);
        for (int i = 0; i < 4; i++) {
          file.write(block(i + 1), BLOCK, (long) i * BLOCK);
        }
        file.sync();
        FileSystemException full =
            assertThrows(FileSystemException.class, () -> file.reserve(9L * BLOCK));
        assertTrue(full.getReason().contains(ErrorText.ENOSPC), full.getReason());
      }
      byte[] expected = new byte[4 * BLOCK];
      for (int i = 0; i < 4; i++) {
        Arrays.fill(expected, i * BLOCK, (i + 1) * BLOCK, (byte) (i + 1));
      }
      assertArrayEquals(expected, Files.readAllBytes(path));
    }
  }

  /** Closing does not wait for a thread that uses the file, which may hang in a call. */
  @Test
  void aFileClosedDuringUseIsReleasedAtTheEndOfTheLastUse() throws Exception {
    for (int round = 0; round < 20; round++) {
      Path path = directory.resolve("used" + round);
      BlockFile file = BlockFile.create(path, false);
      CountDownLatch began = new CountDownLatch(4);
      List<CompletableFuture<Void>> writers =
          Stream.generate(
                  () ->
                      CompletableFuture.runAsync(
                          () -> writeUntilClosed(file, began), BoundedCall.THREADS))
              .limit(4)
              .toList();
      began.await();
      assertTrue(isOpen(path));
      file.close();
      writers.forEach(CompletableFuture::join);
      assertFalse(isOpen(path), "the descriptor is still open");
      Files.delete(path);
    }
  }

  private static void writeUntilClosed(BlockFile file, CountDownLatch began) {
    AlignedBuffer block = block(1);
    try {
      Deadline end = Deadline.after(Duration.ofSeconds(60));
      while (!end.passed()) {
        began.countDown();
        file.write(block, BLOCK, 0);
      }
      throw new IllegalStateException("can be written though it was closed");
    } catch (FileSystemException closed) {
      assertEquals("was closed", closed.getReason());
    }
  }

  private static boolean isOpen(Path path) throws IOException {
    for (Path descriptor : DurableFiles.list(Path.of("/proc/self/fd"))) {
      if (target(descriptor).equals(Optional.of(path))) {
        return true;
      }
    }
    return false;
  }

  private static Optional<Path> target(Path descriptor) throws IOException {
    try {
      return Optional.of(Files.readSymbolicLink(descriptor));
    } catch (NoSuchFileException closedMeanwhile) {
      return Optional.empty();
    }
  }

  /** Like a file system that accepts O_DIRECT and then refuses such writes. */
  @Test
  void severalThreadsSwitchToCachedWritesAtTheSameTime() throws Exception {
    for (int round = 0; round < 100; round++) {
      Path path = directory.resolve("refused" + round);
      try (BlockFile file = BlockFile.create(path, true)) {
        CountDownLatch together = new CountDownLatch(4);
        List<CompletableFuture<Void>> writers =
            Stream.generate(
                    () ->
                        CompletableFuture.runAsync(
                            () -> writeOdd(file, together), BoundedCall.THREADS))
                .limit(4)
                .toList();
        writers.forEach(CompletableFuture::join);
        assertFalse(file.isDirect());
      }
    }
  }

  /** No disk accepts a direct write of 100 bytes. */
  private static void writeOdd(BlockFile file, CountDownLatch together) {
    AlignedBuffer block = block(1);
    try {
      together.countDown();
      together.await();
      file.write(block, 100, 0);
    } catch (FileSystemException | InterruptedException e) {
      throw new CompletionException(e);
    }
  }

  @Test
  @RequiresRoot("mounts a tmpfs")
  void aFileInMemoryThatCannotBeMappedIsWritten() throws IOException {
    Path point = Files.createDirectories(directory.resolve("memory"));
    try (TmpFs tmpfs = TmpFs.mount(point, "size=8m")) {
      Path path = tmpfs.point().resolve("file");
      try (BlockFile file = BlockFile.create(path, true)) {
        // More than there are addresses.
        file.prepare(0, 1L << 60);
        file.write(block(1), BLOCK, 0);
      }
      assertEquals(BLOCK, Files.size(path));
    }
  }
}
