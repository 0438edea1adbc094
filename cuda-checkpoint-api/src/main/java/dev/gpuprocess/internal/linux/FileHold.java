package dev.gpuprocess.internal.linux;

import java.io.IOException;
import java.nio.file.Path;
import java.util.Optional;

/**
 * A lock on a file that exists, by those who use what it stands for, or by the one who removes it.
 * It ends when it is closed or its JVM dies, and is seen by all JVMs that see the file. For one
 * thread at a time.
 */
public final class FileHold implements AutoCloseable {

  private final int descriptor;
  private boolean closed;

  private FileHold(int descriptor) {
    this.descriptor = descriptor;
  }

  /**
   * Holds it together with others who use it.
   *
   * @return empty when somebody holds it alone
   * @throws IOException when it cannot be opened, or its file system knows no locks
   */
  public static Optional<FileHold> shared(Path file) throws IOException {
    return hold(file, Libc.O_RDONLY, OfdLock.SHARED);
  }

  /**
   * Holds it alone.
   *
   * @return empty when anybody holds it
   * @throws IOException when it cannot be opened for writing, or its file system knows no locks
   */
  public static Optional<FileHold> alone(Path file) throws IOException {
    return hold(file, Libc.O_RDWR, OfdLock.EXCLUSIVE);
  }

  private static Optional<FileHold> hold(Path file, int flags, OfdLock lock) throws IOException {
    int descriptor = Libc.open(file, flags | Libc.O_NOFOLLOW | Libc.O_NONBLOCK);
    boolean held = false;
    try {
      held = lock.take(file, descriptor);
      return held ? Optional.of(new FileHold(descriptor)) : Optional.empty();
    } finally {
      if (!held) {
        Libc.close(descriptor);
      }
    }
  }

  /** Lets go. Does nothing the second time. */
  @Override
  public void close() {
    if (!closed) {
      closed = true;
      OfdLock.release(descriptor);
      Libc.close(descriptor);
    }
  }
}
