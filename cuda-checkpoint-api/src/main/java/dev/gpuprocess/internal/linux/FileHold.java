package dev.gpuprocess.internal.linux;

import java.io.IOException;
import java.nio.file.Path;
import java.util.Optional;

/**
 * A lock on an existing file: shared while a JVM uses what the file stands for, exclusive while a
 * JVM removes it. The lock ends when it is closed or its JVM dies. It excludes all JVMs that see
 * the file. For one thread at a time.
 */
public final class FileHold implements AutoCloseable {

  private final int descriptor;
  private boolean closed;

  private FileHold(int descriptor) {
    this.descriptor = descriptor;
  }

  /**
   * Takes a shared lock.
   *
   * @return empty when the file is locked exclusively
   * @throws IOException when it cannot be opened, or its file system has no locks
   */
  public static Optional<FileHold> shared(Path file) throws IOException {
    return hold(file, Libc.O_RDONLY, OfdLock.SHARED);
  }

  /**
   * Takes an exclusive lock.
   *
   * @return empty when the file is locked
   * @throws IOException when it cannot be opened for writing, or its file system has no locks
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

  /** Releases the lock. Does nothing the second time. */
  @Override
  public void close() {
    if (!closed) {
      closed = true;
      OfdLock.release(descriptor);
      Libc.close(descriptor);
    }
  }
}
