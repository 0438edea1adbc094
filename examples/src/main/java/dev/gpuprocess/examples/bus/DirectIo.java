package dev.gpuprocess.examples.bus;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/**
 * The speed of a disk without the page cache, for one file that is written and read sequentially.
 *
 * @param written bytes per second
 * @param read bytes per second
 */
record DirectIo(double written, double read) {

  private static final int BLOCK_MIB = 16;

  /**
   * Measures with {@code dd}, {@code oflag=direct} and {@code iflag=direct}.
   *
   * @param directory the place of a temporary file
   * @param size the size of that file
   */
  static DirectIo measure(Path directory, Size size) throws IOException, InterruptedException {
    String file = directory.resolve("direct").toString();
    int blocks = Math.max(1, size.mebibytes() / BLOCK_MIB);
    String block = "bs=" + BLOCK_MIB + "M";
    double bytes = new Size(blocks * BLOCK_MIB).bytes();
    try {
      double write =
          dd("if=/dev/zero", "of=" + file, block, "count=" + blocks, "oflag=direct", "conv=fsync");
      double read = dd("if=" + file, "of=/dev/null", block, "iflag=direct");
      return new DirectIo(bytes / write, bytes / read);
    } finally {
      Files.deleteIfExists(Path.of(file));
    }
  }

  private static double dd(String... operands) throws IOException, InterruptedException {
    List<String> command = new ArrayList<>(List.of("timeout", "300", "dd"));
    command.addAll(List.of(operands));
    long began = System.nanoTime();
    Process dd = new ProcessBuilder(command).redirectErrorStream(true).start();
    String printed = new String(dd.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    if (dd.waitFor() != 0) {
      throw new IOException("dd: " + printed.strip());
    }
    return (System.nanoTime() - began) / 1e9;
  }
}
