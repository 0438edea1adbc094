package dev.gpuprocess.examples.bus;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/**
 * What a disk does when one file is written, and read, from its start to its end past the page
 * cache.
 *
 * @param written bytes in a second
 * @param read bytes in a second
 */
record DirectIo(double written, double read) {

  private static final int BLOCK_MIB = 16;

  /**
   * Measures ({@code dd} with {@code oflag=direct} and {@code iflag=direct}).
   *
   * @param directory a file is made there and removed
   * @param size of the file
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
    String said = new String(dd.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    if (dd.waitFor() != 0) {
      throw new IOException("dd: " + said.strip());
    }
    return (System.nanoTime() - began) / 1e9;
  }
}
