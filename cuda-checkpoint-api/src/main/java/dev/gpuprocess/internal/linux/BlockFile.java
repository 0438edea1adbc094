package dev.gpuprocess.internal.linux;

import java.lang.ref.Reference;
import java.nio.file.FileSystemException;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.locks.ReentrantReadWriteLock;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A file that is written or read in large blocks, past the page cache if that is requested and the
 * file system supports it ({@code O_DIRECT}). Safe for use by several threads, each with its own
 * buffer.
 */
public final class BlockFile implements AutoCloseable {

  private static final Logger LOG = LoggerFactory.getLogger(BlockFile.class);

  private static final LibcFunctions LIBRARY = Libc.LIBRARY;
  private static final int PRIVATE = 0600;
  private static final int RWF_NOWAIT = 8;
  private static final int FALLOC_FL_KEEP_SIZE = 1;
  private static final int FALLOC_FL_PUNCH_HOLE = 2;

  /** Zeros of so many bytes are a hole. */
  private static final int HOLE = 1 << 20;

  /** The target of reads whose content is ignored. */
  private static final AlignedBuffer PROBE = AlignedBuffer.allocate(AlignedBuffer.ALIGNMENT);

  private final Path path;
  private final int descriptor;
  private final FileSystemStatus status;

  /**
   * Held for reading by threads that use the file, and for writing by the thread that closes it.
   */
  private final ReentrantReadWriteLock uses = new ReentrantReadWriteLock();

  /** Once true, no use begins, and the thread that ends the last use closes the descriptor. */
  private volatile boolean closing;

  /** Guarded by the lock for writing. */
  private boolean released;

  private volatile boolean direct;

  /** Whether the file has its length and its space on the disk, so that it may have holes. */
  private volatile boolean reserved;

  /** The parts that no process maps. */
  private volatile List<FileRange> unmapped = List.of();

  private volatile @Nullable FileWindow window;

  private BlockFile(Path path, int descriptor, FileSystemStatus status, boolean direct) {
    this.path = path;
    this.descriptor = descriptor;
    this.status = status;
    this.direct = direct;
  }

  /**
   * Creates a file that does not exist yet, with mode 0600 whatever the umask.
   *
   * @param path named in exceptions
   * @param direct whether to write past the page cache where that is possible
   * @throws FileSystemException when the file exists or cannot be created
   */
  public static BlockFile create(Path path, boolean direct) throws FileSystemException {
    BlockFile file = of(path, Libc.O_RDWR | Libc.O_CREAT | Libc.O_EXCL, direct);
    LIBRARY.fchmod(file.descriptor, PRIVATE);
    return file;
  }

  /**
   * Opens a file for reading and writing.
   *
   * @throws FileSystemException when it cannot be opened
   */
  public static BlockFile open(Path path, boolean direct) throws FileSystemException {
    return of(path, Libc.O_RDWR, direct);
  }

  /**
   * Opens a regular file for reading; a link is refused.
   *
   * @param direct whether to read past the page cache where that is possible
   * @throws FileSystemException when it cannot be opened
   */
  public static BlockFile openToRead(Path path, boolean direct) throws FileSystemException {
    return of(path, Libc.O_RDONLY | Libc.O_NOFOLLOW | Libc.O_NONBLOCK, direct);
  }

  /**
   * Opens a file that a descriptor of this JVM holds for reading. Does not wait for the holder of a
   * lease.
   *
   * @param link in {@code /proc/self/fd}
   * @throws FileSystemException when it cannot be opened
   */
  static BlockFile openHeld(Path link) throws FileSystemException {
    return of(link, Libc.O_RDONLY | Libc.O_NONBLOCK, false);
  }

  private static BlockFile of(Path path, int flags, boolean direct) throws FileSystemException {
    int descriptor = Libc.open(path, flags, PRIVATE);
    FileSystemStatus status = FileSystemStatus.of(descriptor);
    // Some file systems refuse at once, others at the first write.
    boolean accepted =
        direct
            && !status.isInMemory()
            && LIBRARY.fcntl(descriptor, Libc.F_SETFL, Libc.O_DIRECT) == 0;
    return new BlockFile(path, descriptor, status, accepted);
  }

  /** Returns whether the file is in memory alone, as on a tmpfs. */
  public boolean isInMemory() {
    return status.isInMemory();
  }

  /**
   * Reserves space on the disk, so that a full disk is found before anything is copied. A file
   * system that cannot reserve space is used without. For a file system in memory the free space is
   * compared instead: there one thread would allocate all the pages, as slowly as it would fill
   * them.
   *
   * @throws FileSystemException when there is not enough space
   */
  public void reserve(long bytes) throws FileSystemException {
    if (!isInMemory()) {
      allocate(bytes);
    } else if (status.room() < bytes) {
      throw Libc.failed(path, "cannot be made " + (bytes >> 20) + " MiB long", Libc.ENOSPC);
    } else if (LIBRARY.ftruncate(descriptor, bytes) != 0) {
      throw Libc.failed(path, "cannot be made " + (bytes >> 20) + " MiB long", Libc.errno());
    }
  }

  /**
   * Sets the length of the file.
   *
   * @throws FileSystemException when that fails
   */
  public void truncate(long bytes) throws FileSystemException {
    if (LIBRARY.ftruncate(descriptor, bytes) != 0) {
      throw Libc.failed(path, "cannot be made " + (bytes >> 20) + " MiB long", Libc.errno());
    }
  }

  /** Returns the descriptor, which stays open until {@link #close}. */
  public int descriptor() {
    return descriptor;
  }

  private void allocate(long bytes) throws FileSystemException {
    while (LIBRARY.fallocate(descriptor, 0, 0, bytes) != 0) {
      int errno = Libc.errno();
      if (errno == Libc.EOPNOTSUPP || errno == Libc.ENOSYS) {
        return;
      }
      if (errno != Libc.EINTR) {
        throw Libc.failed(path, "cannot be made " + (bytes >> 20) + " MiB long", errno);
      }
    }
    reserved = true;
  }

  /**
   * Prepares a part of the file for writes by many threads. The kernel serves writes to a file in
   * memory one after the other, but copies into a mapping in parallel, so the part is mapped. To be
   * called once, before the part is written. A part that cannot be mapped is written more slowly.
   *
   * @param from a multiple of the page size
   */
  public void prepare(long from, long to) {
    if (isInMemory() && from < to) {
      try {
        window = FileWindow.map(descriptor, from, to);
      } catch (NativeCallException e) {
        LOG.debug("{} is written without a mapping: {}", path, e.getMessage());
      }
    }
  }

  /**
   * Writes a block.
   *
   * @param from has {@code count} bytes; for direct I/O a multiple of the disk's block size, as
   *     {@code offset} is
   * @throws FileSystemException when it cannot be written; its reason says whether the disk is full
   */
  public void write(AlignedBuffer from, int count, long offset) throws FileSystemException {
    use();
    try {
      writeAll(from, count, offset);
    } finally {
      Reference.reachabilityFence(from);
      endUse();
    }
  }

  /**
   * Names parts of the file that no process maps, so that zeros in them are holes, also in memory.
   *
   * @param parts what was said of the file; bytes in them that are not zero are written
   */
  public void leaveUnmapped(List<FileRange> parts) {
    unmapped = List.copyOf(parts);
  }

  /**
   * Writes a block, without the parts that are zero and can be holes: on a disk, after {@link
   * #reserve}, and in parts that no process maps. A hole takes no space, and no time to write or
   * read. In memory other zeros are written, since a process that reads a hole through a mapping
   * needs memory for it at that time.
   *
   * @param from as for {@link #write}
   * @throws FileSystemException when it cannot be written; its reason says whether the disk is full
   */
  public void writeContent(AlignedBuffer from, int count, long offset) throws FileSystemException {
    int written = 0;
    for (int at = 0; at < count; at += HOLE) {
      int part = Math.min(HOLE, count - at);
      if (mayBeHole(offset + at, part)
          && from.part(at, part).isZero(part)
          && punch(part, offset + at)) {
        writePart(from, written, at, offset);
        written = at + part;
      }
    }
    writePart(from, written, count, offset);
  }

  private boolean mayBeHole(long offset, int count) {
    return reserved || unmapped.stream().anyMatch(each -> each.contains(offset, offset + count));
  }

  private void writePart(AlignedBuffer from, int begin, int end, long offset)
      throws FileSystemException {
    if (begin < end) {
      write(from.part(begin, end - begin), end - begin, offset + begin);
    }
  }

  /**
   * Returns whether a part of the file is zero. Reads no further than the block with the first byte
   * that is not; a hole is not filled.
   *
   * @param through gets the blocks
   * @throws FileSystemException when the part cannot be read
   */
  public boolean isZero(AlignedBuffer through, long count, long offset) throws FileSystemException {
    int block = AlignedBuffer.ALIGNMENT;
    for (long at = 0; at < count; block = through.size()) {
      int part = (int) Math.min(block, count - at);
      read(through, part, offset + at);
      if (!through.isZero(part)) {
        return false;
      }
      at += part;
    }
    return true;
  }

  /**
   * Makes a part of the file a hole, whatever it was, and keeps its length.
   *
   * @return false if that cannot be done
   * @throws FileSystemException when the file was closed
   */
  public boolean punch(long count, long offset) throws FileSystemException {
    use();
    try {
      return LIBRARY.fallocate(
              descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, count)
          == 0;
    } finally {
      endUse();
    }
  }

  private void use() throws FileSystemException {
    // The lock is held for writing only while the descriptor is closed.
    if (uses.readLock().tryLock()) {
      if (!closing) {
        return;
      }
      endUse();
    }
    throw new FileSystemException(path.toString(), null, "was closed");
  }

  private void endUse() {
    uses.readLock().unlock();
    if (closing) {
      releaseUnlessUsed();
    }
  }

  private void writeAll(AlignedBuffer from, int count, long offset) throws FileSystemException {
    FileWindow prepared = window;
    if (prepared != null && prepared.write(from, count, offset)) {
      return;
    }
    int done = 0;
    while (done < count) {
      // Read before the write: another thread may switch to cached writes.
      boolean was = direct;
      long written = LIBRARY.pwrite(descriptor, from.address() + done, count - done, offset + done);
      if (written > 0) {
        done += (int) written;
        continue;
      }
      int errno = written == 0 ? Libc.ENOSPC : Libc.errno();
      if (errno == Libc.EINVAL && was) {
        cached();
      } else if (errno != Libc.EINTR) {
        throw Libc.failed(path, "cannot be written", errno);
      }
    }
  }

  /**
   * Reads a block.
   *
   * @param to gets {@code count} bytes
   * @throws FileSystemException when it cannot be read, or the file is shorter
   */
  public void read(AlignedBuffer to, int count, long offset) throws FileSystemException {
    use();
    try {
      readAll(to, count, offset);
    } finally {
      Reference.reachabilityFence(to);
      endUse();
    }
  }

  private void readAll(AlignedBuffer to, int count, long offset) throws FileSystemException {
    int done = 0;
    while (done < count) {
      // Read before the pread: another thread may switch to cached reads.
      boolean was = direct;
      long read = LIBRARY.pread(descriptor, to.address() + done, count - done, offset + done);
      if (read > 0) {
        done += (int) read;
      } else if (read == 0) {
        throw new FileSystemException(path.toString(), null, "is shorter than it was");
      } else if (was && Libc.errno() == Libc.EINVAL) {
        cached();
      } else if (Libc.errno() != Libc.EINTR) {
        throw Libc.failed(path, "cannot be read", Libc.errno());
      }
    }
  }

  /**
   * Returns whether a page of the file is in the page cache, so that reading it needs no disk.
   *
   * @param offset an offset in the page
   */
  public boolean isCached(long offset) {
    return LIBRARY.preadv2(
            descriptor,
            new long[] {PROBE.address(), AlignedBuffer.ALIGNMENT},
            1,
            offset & -AlignedBuffer.ALIGNMENT,
            RWF_NOWAIT)
        > 0;
  }

  private void cached() throws FileSystemException {
    if (LIBRARY.fcntl(descriptor, Libc.F_SETFL, 0) != 0) {
      throw Libc.failed(path, "cannot be written through the page cache", Libc.errno());
    }
    direct = false;
  }

  /** Waits until all written data is on the disk. */
  public void sync() throws FileSystemException {
    use();
    try {
      while (LIBRARY.fdatasync(descriptor) != 0) {
        int errno = Libc.errno();
        if (errno != Libc.EINTR) {
          throw Libc.failed(path, "cannot be synced", errno);
        }
      }
    } finally {
      endUse();
    }
  }

  /** Returns whether the file is accessed past the page cache. */
  public boolean isDirect() {
    return direct;
  }

  /**
   * Closes the file. While a thread hangs in a call, the file stays open and mapped until that call
   * returns: otherwise the call could write to another file or mapping that got the same descriptor
   * or address.
   */
  @Override
  public void close() {
    closing = true;
    releaseUnlessUsed();
  }

  /** Closes the descriptor unless a thread uses it; that thread then does so when it ends. */
  private void releaseUnlessUsed() {
    if (!uses.writeLock().tryLock()) {
      return;
    }
    try {
      if (!released) {
        released = true;
        release();
      }
    } finally {
      uses.writeLock().unlock();
    }
  }

  private void release() {
    FileWindow prepared = window;
    if (prepared != null) {
      prepared.close();
    }
    LIBRARY.close(descriptor);
  }
}
