package dev.gpuprocess.examples.bus;

import dev.gpuprocess.fixtures.ProgramRun;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

/**
 * A file on a disk that {@code dd} writes and reads sequentially, past the page cache, to be
 * compared with the library's writes and reads.
 */
final class DirectIo implements AutoCloseable {

  private static final int BLOCK_MIB = 16;
  private static final Duration LIMIT = Duration.ofMinutes(5);

  private final Path file;
  private final int blocks;

  /**
   * Creates the measure; the file does not exist yet.
   *
   * @param directory the place of the file
   * @param size the size of the file
   */
  DirectIo(Path directory, Size size) {
    this.file = directory.resolve("direct");
    this.blocks = Math.max(1, size.mebibytes() / BLOCK_MIB);
  }

  /** Writes the file, with {@code oflag=direct}, and returns bytes per second. */
  double write() {
    return dd("if=/dev/zero", "of=" + file, "oflag=direct", "conv=fsync");
  }

  /** Reads the file, with {@code iflag=direct}, and returns bytes per second. */
  double read() {
    return dd("if=" + file, "of=/dev/null", "iflag=direct");
  }

  private double dd(String... operands) {
    List<String> command = new ArrayList<>(List.of("dd"));
    command.addAll(List.of("bs=" + BLOCK_MIB + "M", "count=" + blocks));
    command.addAll(List.of(operands));
    long began = System.nanoTime();
    ProgramRun.of(command).succeed(LIMIT);
    return new Size(blocks * BLOCK_MIB).bytes() / ((System.nanoTime() - began) / 1e9);
  }

  @Override
  public void close() throws IOException {
    Files.deleteIfExists(file);
  }
}
