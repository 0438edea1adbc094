package dev.gpuprocess.internal.linux;

import dev.gpuprocess.internal.time.Polling;
import java.nio.file.FileSystemException;
import java.nio.file.Path;
import java.time.Duration;

/**
 * The processes that can write to a file, because they have it open for writing, or map it by such
 * a descriptor. The kernel counts both, and gives a lease for reading only while there are none.
 */
public final class FileWriters {

  private static final int F_SETSIG = 10;
  private static final int F_SETLEASE = 1024;
  private static final int F_RDLCK = 0;
  private static final int F_UNLCK = 2;

  /** Ignored by default; the signal of a broken lease would otherwise end this JVM. */
  private static final int SIGURG = 23;

  /** The kernel closes files of unmapped memory, and of children that start, a little later. */
  private static final Duration CLOSING = Duration.ofSeconds(5);

  private FileWriters() {}

  /**
   * Returns whether no process can write to a file without opening it, for which it needs
   * permission. Waits up to five seconds for writers that are closing it.
   *
   * @param file whose owner is the user of this JVM
   * @return false also if the file system has no leases
   * @throws FileSystemException if it cannot be opened for reading
   */
  public static boolean areNone(Path file) throws FileSystemException {
    int descriptor = Libc.open(file, Libc.O_RDONLY | Libc.O_NONBLOCK, 0);
    try {
      Libc.LIBRARY.fcntl(descriptor, F_SETSIG, SIGURG);
      return Polling.until(CLOSING, () -> isLeased(descriptor));
    } finally {
      Descriptors.close(descriptor);
    }
  }

  private static boolean isLeased(int descriptor) {
    if (Libc.LIBRARY.fcntl(descriptor, F_SETLEASE, F_RDLCK) != 0) {
      return false;
    }
    Libc.LIBRARY.fcntl(descriptor, F_SETLEASE, F_UNLCK);
    return true;
  }
}
