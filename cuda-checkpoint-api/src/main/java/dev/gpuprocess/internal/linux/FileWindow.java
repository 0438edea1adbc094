package dev.gpuprocess.internal.linux;

import dev.gpuprocess.internal.jnr.BlockFunctions;
import java.io.IOException;

/**
 * A part of a file that this JVM maps to fill it. Only the kernel touches the mapping ({@code
 * process_vm_readv} of our own memory): where there is no page for it, as when the file system is
 * full, that is an answer and not a SIGBUS. Safe for use by several threads.
 */
final class FileWindow implements AutoCloseable {

  private static final int READ_WRITE = 3;
  private static final int MAP_SHARED = 1;
  private static final int MADV_HUGEPAGE = 14;

  private final BlockFunctions library;
  private final ProcessMemory self = new ProcessMemory((int) ProcessHandle.current().pid());
  private final long from;
  private final long to;
  private final long address;

  private FileWindow(BlockFunctions library, long from, long to, long address) {
    this.library = library;
    this.from = from;
    this.to = to;
    this.address = address;
  }

  /**
   * Maps.
   *
   * @param descriptor open to be read and written
   * @param from a multiple of the page size
   */
  static FileWindow map(BlockFunctions library, int descriptor, long from, long to)
      throws NativeCallException {
    long address = library.mmap(null, to - from, READ_WRITE, MAP_SHARED, descriptor, from);
    if (address == -1) {
      throw Libc.failure("mmap of " + (to - from) + " bytes of a file", Libc.errno());
    }
    // For a tmpfs of huge=advise. Others have their own mind, and refuse or ignore it.
    int unused = library.madvise(address, to - from, MADV_HUGEPAGE);
    return new FileWindow(library, from, to, address);
  }

  /**
   * Writes a block.
   *
   * @return false when not all of it was written, because it is not in the window or the kernel
   *     could not; a write to the file itself tells why
   */
  boolean write(AlignedBuffer block, int count, long offset) {
    if (offset < from || offset + count > to) {
      return false;
    }
    try {
      self.readTo(address + offset - from, block.address(), count);
      return true;
    } catch (IOException told) {
      return false;
    }
  }

  @Override
  public void close() {
    int unused = library.munmap(address, to - from);
  }
}
