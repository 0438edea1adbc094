package dev.gpuprocess.examples.bus;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.stream.IntStream;

/**
 * Memory of a virtual machine that was never used is slow the first time. It is used here before
 * anything is measured, lest whoever comes first pays for it.
 */
final class TouchedMemory {

  private static final int FILES = 8;
  private static final int BLOCK_MIB = 4;

  /** What is left alone. */
  private static final long SPARE_MIB = 8 << 10;

  private TouchedMemory() {}

  /**
   * Uses it, by files that are removed again.
   *
   * @param tmpfs a directory on one
   * @param mebibytes at most; less where there is less room or memory
   */
  static void touch(Path tmpfs, long mebibytes) throws IOException {
    long room = Files.getFileStore(tmpfs).getUsableSpace() >> 20;
    long most = Math.min(room / 2, available() - SPARE_MIB);
    int blocks = (int) (Math.max(0, Math.min(mebibytes, most)) / FILES / BLOCK_MIB);
    IntStream.range(0, FILES).parallel().forEach(file -> touch(tmpfs, file, blocks));
  }

  /** What the kernel says is available, in MiB. */
  static long available() throws IOException {
    return Files.readAllLines(Path.of("/proc/meminfo")).stream()
        .filter(line -> line.startsWith("MemAvailable:"))
        .mapToLong(line -> Long.parseLong(line.replaceAll("[^0-9]", "")) >> 10)
        .findFirst()
        .orElse(0);
  }

  private static void touch(Path tmpfs, int number, int blocks) {
    Path file = tmpfs.resolve("touched-memory-" + ProcessHandle.current().pid() + "-" + number);
    ByteBuffer block = ByteBuffer.allocateDirect(BLOCK_MIB << 20);
    try (FileChannel out =
        FileChannel.open(
            file,
            StandardOpenOption.CREATE_NEW,
            StandardOpenOption.WRITE,
            StandardOpenOption.DELETE_ON_CLOSE)) {
      for (int i = 0; i < blocks; i++) {
        block.clear();
        while (block.hasRemaining()) {
          int unused = out.write(block);
        }
      }
    } catch (IOException e) {
      throw new UncheckedIOException("memory cannot be touched by " + file, e);
    }
  }
}
