package dev.gpuprocess.examples.fastpath;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;

/** What a disk takes when it is written from the start to the end of one file, past the cache. */
final class DirectWrite {

  private static final int BLOCK_MIB = 16;
  private static final int MOST_MIB = 8192;

  private DirectWrite() {}

  /**
   * Measures ({@code dd oflag=direct}).
   *
   * @param directory a file is made there and removed
   * @param size at most 8 GiB are written
   * @return bytes in a second
   */
  static double speed(Path directory, Size size) throws IOException, InterruptedException {
    Path file = directory.resolve("direct");
    int blocks = Math.max(1, Math.min(size.mebibytes(), MOST_MIB) / BLOCK_MIB);
    try {
      long began = System.nanoTime();
      Process dd =
          new ProcessBuilder(
                  "timeout",
                  "120",
                  "dd",
                  "if=/dev/zero",
                  "of=" + file,
                  "bs=" + BLOCK_MIB + "M",
                  "count=" + blocks,
                  "oflag=direct",
                  "conv=fsync")
              .redirectErrorStream(true)
              .start();
      String said = new String(dd.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
      if (dd.waitFor() != 0) {
        throw new IOException("dd: " + said.strip());
      }
      return (((long) blocks * BLOCK_MIB) << 20) / ((System.nanoTime() - began) / 1e9);
    } finally {
      Files.deleteIfExists(file);
    }
  }
}
