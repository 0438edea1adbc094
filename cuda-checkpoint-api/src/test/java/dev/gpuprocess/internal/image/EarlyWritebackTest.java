package dev.gpuprocess.internal.image;

import static java.util.concurrent.TimeUnit.SECONDS;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class EarlyWritebackTest {

  private static final int PIECES = 4;

  @TempDir Path directory;

  private static List<String> threads() {
    return Thread.getAllStackTraces().keySet().stream()
        .map(Thread::getName)
        .filter("gpuprocess-writeback"::equals)
        .toList();
  }

  /** A thread that was joined may be listed for a moment. */
  private static void awaitNoThread() {
    await().atMost(20, SECONDS).untilAsserted(() -> assertEquals(List.of(), threads()));
  }

  @Test
  void whatGrowsIsLeftAsItIs_andNothingGoesOnOnceItIsClosed() throws IOException {
    Path pages = directory.resolve("pages-1.img");
    byte[] piece = new byte[16 << 20];
    new Random(1).nextBytes(piece);
    try (EarlyWriteback writeback = EarlyWriteback.of(directory)) {
      Files.createFile(pages);
      for (int i = 0; i < PIECES; i++) {
        Files.write(pages, piece, StandardOpenOption.APPEND);
      }
      writeback.close();
      awaitNoThread();
    }
    assertEquals((long) PIECES * piece.length, Files.size(pages));
    byte[] all = Files.readAllBytes(pages);
    assertArrayEquals(piece, Arrays.copyOfRange(all, all.length - piece.length, all.length));
  }

  @Test
  void aDirectoryThatGoesAwayIsNoMatter() throws IOException {
    Path gone = Files.createDirectory(directory.resolve("gone"));
    try (EarlyWriteback writeback = EarlyWriteback.of(gone)) {
      Files.delete(gone);
      writeback.close();
      awaitNoThread();
    }
  }
}
