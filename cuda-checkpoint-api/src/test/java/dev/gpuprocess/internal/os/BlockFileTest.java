package dev.gpuprocess.internal.os;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.contract.TmpFs;
import java.io.IOException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
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
  void whatIsWrittenAfterItWasClosedGoesNowhere() throws IOException {
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
  void aFileInMemoryIsWrittenInItsWindowAndBesideIt() throws IOException {
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
        assertTrue(full.getReason().contains("No space left"), full.getReason());
      }
      byte[] expected = new byte[4 * BLOCK];
      for (int i = 0; i < 4; i++) {
        Arrays.fill(expected, i * BLOCK, (i + 1) * BLOCK, (byte) (i + 1));
      }
      assertArrayEquals(expected, Files.readAllBytes(path));
    }
  }
}
