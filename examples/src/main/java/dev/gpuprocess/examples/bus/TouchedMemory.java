package dev.gpuprocess.examples.bus;

import dev.gpuprocess.internal.proc.HostMemory;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.stream.IntStream;

/**
 * Uses free memory once before a measurement. Memory of a virtual machine is slow when it is used
 * for the first time, and the first measurement would be slower for that.
 */
final class TouchedMemory {

  private static final int FILES = 8;
  private static final int BLOCK_MIB = 4;

  /** Memory that is not used. */
  private static final long SPARE_MIB = 8 << 10;

  private TouchedMemory() {}

  /**
   * Writes files and removes them.
   *
   * @param tmpfs a directory on a tmpfs
   * @param mebibytes the most to use; less if less is free
   */
  static void touch(Path tmpfs, long mebibytes) throws IOException {
    long space = Files.getFileStore(tmpfs).getUsableSpace() >> 20;
    long most =
        Math.min(space / 2, (HostMemory.read(HostMemory.FILE).available() >> 20) - SPARE_MIB);
    int blocks = (int) (Math.max(0, Math.min(mebibytes, most)) / FILES / BLOCK_MIB);
    IntStream.range(0, FILES).parallel().forEach(file -> touch(tmpfs, file, blocks));
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
      throw new UncheckedIOException("cannot write " + file, e);
    }
  }
}
