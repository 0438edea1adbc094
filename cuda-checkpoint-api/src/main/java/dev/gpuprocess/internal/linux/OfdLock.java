package dev.gpuprocess.internal.linux;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Path;

/** Locks of whole files that belong to an open file description ({@code F_OFD_SETLK}). */
enum OfdLock {
  /** A shared lock; the descriptor must be open for reading. */
  SHARED(0),
  /** An exclusive lock; the descriptor must be open for writing. */
  EXCLUSIVE(1),
  NONE(2);

  private static final int F_OFD_GETLK = 36;
  private static final int F_OFD_SETLK = 37;
  private static final int SIZE_OF_FLOCK = 32;

  private final short type;

  OfdLock(int type) {
    this.type = (short) type;
  }

  /**
   * Takes the lock; it replaces a lock that the description has.
   *
   * @return false when another description has a conflicting lock
   */
  boolean take(Path path, int descriptor) throws IOException {
    if (Libc.LIBRARY.fcntl(descriptor, F_OFD_SETLK, wholeFile()) == 0) {
      return true;
    }
    int errno = Libc.errno();
    if (errno == Libc.EAGAIN || errno == Libc.EACCES) {
      return false;
    }
    throw Libc.failed(path, "cannot be locked", errno);
  }

  /**
   * Releases the lock of the description. A program that is being started may have the descriptor
   * until its exec, so closing is not enough.
   */
  static void release(int descriptor) {
    Libc.LIBRARY.fcntl(descriptor, F_OFD_SETLK, NONE.wholeFile());
  }

  /** Returns whether another description has a conflicting lock. */
  boolean isExcluded(Path path, int descriptor) throws IOException {
    byte[] lock = wholeFile();
    if (Libc.LIBRARY.fcntl(descriptor, F_OFD_GETLK, lock) != 0) {
      throw Libc.failed(path, "its lock cannot be read", Libc.errno());
    }
    return ByteBuffer.wrap(lock).order(ByteOrder.nativeOrder()).getShort() != NONE.type;
  }

  /** {@code struct flock}: the whole file; the pid must be 0. */
  private byte[] wholeFile() {
    return ByteBuffer.allocate(SIZE_OF_FLOCK).order(ByteOrder.nativeOrder()).putShort(type).array();
  }
}
