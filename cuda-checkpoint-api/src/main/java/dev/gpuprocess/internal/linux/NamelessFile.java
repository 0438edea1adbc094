package dev.gpuprocess.internal.linux;

import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.text.NativePath;
import java.io.IOException;
import java.nio.file.FileSystemException;
import java.nio.file.Path;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * A file without a name on a file system in memory ({@code O_TMPFILE}): its memory is free when
 * nobody has it open or mapped any more. This JVM never touches what is in it by a mapping that
 * another process could cut short. Safe for use by several threads.
 */
public final class NamelessFile implements AutoCloseable {

  private static final LibcFunctions LIBRARY = Libc.LIBRARY;

  private static final int AT_FDCWD = -100;
  private static final int AT_SYMLINK_FOLLOW = 0x400;
  private static final int PRIVATE = 0600;

  private final int descriptor;
  private final long bytes;
  private final AtomicBoolean closed = new AtomicBoolean();

  private NamelessFile(int descriptor, long bytes) {
    this.descriptor = descriptor;
    this.bytes = bytes;
  }

  /**
   * Makes one, whose pages are not there yet.
   *
   * @throws FileSystemException when it cannot be made
   */
  public static NamelessFile create(Path directory, long bytes) throws FileSystemException {
    int descriptor = Libc.open(directory, Libc.O_RDWR | Libc.O_TMPFILE, PRIVATE);
    if (LIBRARY.ftruncate(descriptor, bytes) != 0) {
      int errno = Libc.errno();
      Descriptors.close(descriptor);
      throw Libc.failed(directory, "cannot take a file of " + bytes + " bytes", errno);
    }
    return new NamelessFile(descriptor, bytes);
  }

  /** How long it is. */
  public long bytes() {
    return bytes;
  }

  /** A path of it for this JVM, as long as it is open. */
  public Path path() {
    return ProcFs.descriptor(descriptor);
  }

  /** Its descriptor, open as long as this is. */
  public int descriptor() {
    return descriptor;
  }

  /**
   * Maps all of it, to make its pages. To be done before another process has the file.
   *
   * @return the mapping, to be closed
   * @throws NativeCallException when it cannot be mapped
   */
  public Pages pages() throws NativeCallException {
    long address = LIBRARY.mmap(null, bytes, Libc.PROT_READ_WRITE, Libc.MAP_SHARED, descriptor, 0);
    if (address == -1) {
      throw Libc.failure("mmap of " + bytes + " bytes of a file", Libc.errno());
    }
    int unused = LIBRARY.madvise(address, bytes, Libc.MADV_HUGEPAGE);
    return new Pages(this, address);
  }

  /**
   * A file as it is mapped to make its pages. Mapping and unmapping wait for all threads that make
   * pages in this JVM, so it is done once.
   *
   * @param file which
   * @param address where
   */
  public record Pages(NamelessFile file, long address) implements AutoCloseable {

    /**
     * Makes the pages of a part, in huge pages if the file system has them. Several threads make
     * several parts at a time.
     *
     * @param from a multiple of 2 MiB
     * @throws NativeCallException when there is not so much memory
     */
    public void make(long from, long to) throws NativeCallException {
      // A file system that is full is an answer here, and no SIGBUS.
      if (LIBRARY.madvise(address + from, to - from, Libc.MADV_POPULATE_WRITE) != 0) {
        file.allocate(from, to, Libc.errno());
      }
    }

    @Override
    public void close() {
      int unused = LIBRARY.munmap(address, file.bytes);
    }
  }

  /**
   * Frees the pages behind a position. They must not be mapped.
   *
   * @throws NativeCallException when the file cannot be shortened
   */
  public void truncate(long position) throws NativeCallException {
    if (LIBRARY.ftruncate(descriptor, position) != 0) {
      throw Libc.failure("ftruncate of a file in memory", Libc.errno());
    }
  }

  /** For kernels before 5.14, which cannot populate. */
  private void allocate(long from, long to, int errno) throws NativeCallException {
    if (errno != Libc.EINVAL) {
      throw Libc.failure("populate " + (to - from) + " bytes of a file", errno);
    }
    if (LIBRARY.fallocate(descriptor, 0, from, to - from) != 0) {
      throw Libc.failure("allocate " + (to - from) + " bytes of a file", Libc.errno());
    }
  }

  /**
   * Gives a file that has no name, or another one, a name on the same file system.
   *
   * @param descriptor of the file
   * @throws IOException when it cannot be had
   */
  public static void link(int descriptor, Path name) throws IOException {
    Path file = ProcFs.descriptor(descriptor);
    int result =
        LIBRARY.linkat(
            AT_FDCWD,
            NativePath.cString(file),
            AT_FDCWD,
            NativePath.cString(name),
            AT_SYMLINK_FOLLOW);
    if (result != 0) {
      throw Libc.failed(name, "cannot be made a name of a file in memory", Libc.errno());
    }
  }

  /** Closes it. Does nothing the second time: its number may be another file's by then. */
  @Override
  public void close() {
    if (!closed.getAndSet(true)) {
      Descriptors.close(descriptor);
    }
  }
}
