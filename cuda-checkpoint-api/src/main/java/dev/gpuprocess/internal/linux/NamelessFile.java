package dev.gpuprocess.internal.linux;

import dev.gpuprocess.internal.proc.FileId;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.text.NativePath;
import java.io.IOException;
import java.nio.file.Path;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * A file without a name on a file system in memory ({@code O_TMPFILE}). Its memory is freed when no
 * process has it open or mapped any more. This JVM never accesses it by a mapping, since another
 * process could truncate the file. Safe for use by several threads.
 */
public final class NamelessFile implements AutoCloseable {

  private static final LibcFunctions LIBRARY = Libc.LIBRARY;

  private static final int AT_FDCWD = -100;
  private static final int AT_SYMLINK_FOLLOW = 0x400;
  private static final int PRIVATE = 0600;

  private final int descriptor;
  private final FileId id;
  private final long bytes;
  private final AtomicBoolean closed = new AtomicBoolean();

  private NamelessFile(int descriptor, FileId id, long bytes) {
    this.descriptor = descriptor;
    this.id = id;
    this.bytes = bytes;
  }

  /**
   * Creates a file without pages.
   *
   * @throws IOException when it cannot be created
   */
  public static NamelessFile create(Path directory, long bytes) throws IOException {
    int descriptor = Libc.open(directory, Libc.O_RDWR | Libc.O_TMPFILE, PRIVATE);
    if (LIBRARY.ftruncate(descriptor, bytes) != 0) {
      int errno = Libc.errno();
      Descriptors.close(descriptor);
      throw Libc.failed(directory, "cannot take a file of " + bytes + " bytes", errno);
    }
    try {
      return new NamelessFile(descriptor, FileId.of(ProcFs.descriptor(descriptor)), bytes);
    } catch (IOException | RuntimeException | Error e) {
      Descriptors.close(descriptor);
      throw e;
    }
  }

  public FileId id() {
    return id;
  }

  /** Returns the length. */
  public long bytes() {
    return bytes;
  }

  /** Returns a path for this JVM that is valid until {@link #close}. */
  public Path path() {
    return ProcFs.descriptor(descriptor);
  }

  /** Returns the descriptor, which stays open until {@link #close}. */
  public int descriptor() {
    return descriptor;
  }

  /**
   * Maps the whole file, to allocate its pages. To be called before another process has the file.
   *
   * @return the mapping, to be closed by the caller by the caller
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
   * A mapping of a file through which its pages are allocated. Mapping and unmapping wait for all
   * threads of this JVM that allocate pages, so it is done once.
   *
   * @param file the file
   * @param address the address of the mapping
   */
  public record Pages(NamelessFile file, long address) implements AutoCloseable {

    /**
     * Allocates the pages of a part, in huge pages if the file system has them. Several threads may
     * allocate several parts at the same time.
     *
     * @param from a multiple of 2 MiB
     * @throws NativeCallException when there is not enough memory
     */
    public void make(long from, long to) throws NativeCallException {
      // If the file system is full, this call fails; an access would raise SIGBUS.
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

  /** Allocates pages on kernels before 5.14, which lack MADV_POPULATE_WRITE. */
  private void allocate(long from, long to, int errno) throws NativeCallException {
    if (errno != Libc.EINVAL) {
      throw Libc.failure("populate " + (to - from) + " bytes of a file", errno);
    }
    if (LIBRARY.fallocate(descriptor, 0, from, to - from) != 0) {
      throw Libc.failure("allocate " + (to - from) + " bytes of a file", Libc.errno());
    }
  }

  /**
   * Gives a file a name on the same file system.
   *
   * @param descriptor a descriptor of the file
   * @throws IOException when that fails
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

  /** Closes the file. Does nothing the second time: another file may have the descriptor then. */
  @Override
  public void close() {
    if (!closed.getAndSet(true)) {
      Descriptors.close(descriptor);
    }
  }
}
