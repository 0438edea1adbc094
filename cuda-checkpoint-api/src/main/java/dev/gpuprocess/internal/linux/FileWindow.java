package dev.gpuprocess.internal.linux;

import java.io.IOException;

/**
 * A part of a file that this JVM maps to fill it. Only the kernel touches the mapping ({@code
 * process_vm_readv} of our own memory): where there is no page for it, as when the file system is
 * full, that is an answer and not a SIGBUS. Safe for use by several threads.
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
   * Maps.
   *
   * @param descriptor open to be read and written
   * @param from a multiple of the page size
   */
  static FileWindow map(int descriptor, long from, long to) throws NativeCallException {
    long address =
        LIBRARY.mmap(null, to - from, Libc.PROT_READ_WRITE, Libc.MAP_SHARED, descriptor, from);
    if (address == -1) {
      throw Libc.failure("mmap of " + (to - from) + " bytes of a file", Libc.errno());
    }
    // For a tmpfs of huge=advise. Others have their own mind, and refuse or ignore it.
    int unused = LIBRARY.madvise(address, to - from, Libc.MADV_HUGEPAGE);
    return new FileWindow(from, to, address);
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
    int unused = LIBRARY.munmap(address, to - from);
  }
}
