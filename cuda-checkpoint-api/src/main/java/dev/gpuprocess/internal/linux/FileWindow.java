package dev.gpuprocess.internal.linux;

import java.io.IOException;

/**
 * A part of a file that this JVM maps to fill it. Only the kernel accesses the mapping ({@code
 * process_vm_readv} of this process): if the file system is full, the call fails, whereas an access
 * from Java would raise SIGBUS. Safe for use by several threads.
 */
final class FileWindow implements AutoCloseable {

  private static final LibcFunctions LIBRARY = Libc.LIBRARY;

  private final ProcessMemory self = new ProcessMemory((int) ProcessHandle.current().pid());
  private final long from;
  private final long to;
  private final long address;

  private FileWindow(long from, long to, long address) {
    this.from = from;
    this.to = to;
    this.address = address;
  }

  /**
   * Maps a part of a file.
   *
   * @param descriptor open for reading and writing
   * @param from a multiple of the page size
   */
  static FileWindow map(int descriptor, long from, long to) throws NativeCallException {
    long address =
        LIBRARY.mmap(null, to - from, Libc.PROT_READ_WRITE, Libc.MAP_SHARED, descriptor, from);
    if (address == -1) {
      throw Libc.failure("mmap of " + (to - from) + " bytes of a file", Libc.errno());
    }
    // For a tmpfs with huge=advise; other file systems refuse or ignore it.
    int unused = LIBRARY.madvise(address, to - from, Libc.MADV_HUGEPAGE);
    return new FileWindow(from, to, address);
  }

  /**
   * Writes a block.
   *
   * @return false when the block is not in the window or was not written entirely; a write to the
   *     file then fails with the reason
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
    int unused = LIBRARY.munmap(address, to - from);
  }
}
