package dev.gpuprocess.internal.linux;

import dev.gpuprocess.internal.proc.ProcFs;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.Arrays;
import java.util.Objects;
import java.util.Optional;

/**
 * A file that is locked while it is open ({@code F_OFD_SETLK}). The lock belongs to the open file
 * description: two class loaders of one JVM exclude each other, closing another descriptor of the
 * file does not release the lock, and the kernel releases it when the JVM dies. The file holds a
 * record of up to {@value #RECORD} bytes, which can be read without the lock.
 *
 * <p>Safe for use by several threads.
 */
public final class LockedFile {

  /** The maximum length of a record, in bytes of UTF-8. */
  static final int RECORD = 1024;

  private static final int PRIVATE = 0600;
  private static final int MAX_READS = 10;

  private final Path path;
  private final int descriptor;
  private boolean released;

  private LockedFile(Path path, int descriptor) {
    this.path = path;
    this.descriptor = descriptor;
  }

  /**
   * Locks the file, and creates it if it does not exist.
   *
   * @return empty when it is locked already, by this JVM or another
   */
  public static Optional<LockedFile> tryLock(Path path) throws IOException {
    while (true) {
      int descriptor = open(path, Libc.O_RDWR | Libc.O_CREAT);
      boolean keep = false;
      try {
        requireRegular(path, descriptor);
        if (!OfdLock.EXCLUSIVE.take(path, descriptor)) {
          return Optional.empty();
        }
        // Another JVM may have removed the file before it was locked; others then lock a new file.
        keep = isAt(path, descriptor);
        if (keep) {
          return Optional.of(new LockedFile(path, descriptor));
        }
      } finally {
        if (!keep) {
          Libc.LIBRARY.close(descriptor);
        }
      }
    }
  }

  /** Returns whether the file is locked, without locking it. */
  public static boolean isLocked(Path path) throws IOException {
    int descriptor;
    try {
      descriptor = open(path, Libc.O_RDONLY);
    } catch (NoSuchFileException notYet) {
      return false;
    }
    try {
      requireRegular(path, descriptor);
      return OfdLock.EXCLUSIVE.isExcluded(path, descriptor);
    } finally {
      Libc.LIBRARY.close(descriptor);
    }
  }

  /** Reads the record without the lock; empty when the file does not exist. */
  public static Optional<String> read(Path path) throws IOException {
    int descriptor;
    try {
      descriptor = open(path, Libc.O_RDONLY);
    } catch (NoSuchFileException notYet) {
      return Optional.empty();
    }
    try {
      requireRegular(path, descriptor);
      return Optional.of(read(path, descriptor));
    } finally {
      Libc.LIBRARY.close(descriptor);
    }
  }

  /** Reads the record; empty when none was written yet. */
  public synchronized String read() throws IOException {
    requireHeld();
    return read(path, descriptor);
  }

  /** Replaces the record. */
  public synchronized void write(String record) throws IOException {
    requireHeld();
    byte[] text = record.getBytes(StandardCharsets.UTF_8);
    if (text.length > RECORD) {
      throw new IllegalArgumentException("a record of " + text.length + " bytes is too long");
    }
    // Always the full length, so that no reader sees the end of an older record.
    Descriptors.write(Libc.LIBRARY, descriptor, path, Arrays.copyOf(text, RECORD), 0);
  }

  /** Releases the lock. Does nothing the second time. */
  public synchronized void release() {
    if (!released) {
      released = true;
      OfdLock.release(descriptor);
      Libc.LIBRARY.close(descriptor);
    }
  }

  /** Removes the file and releases the lock. */
  public synchronized void remove() throws IOException {
    if (!released) {
      try {
        Files.deleteIfExists(path);
      } finally {
        release();
      }
    }
  }

  private void requireHeld() {
    if (released) {
      throw new IllegalStateException(path + " is no longer locked");
    }
  }

  private static int open(Path path, int flags) throws IOException {
    int descriptor = Libc.open(path, flags | Libc.O_NOFOLLOW | Libc.O_NONBLOCK, PRIVATE);
    if ((flags & Libc.O_CREAT) != 0) {
      // Independent of the umask. Fails only for a file of another user.
      Libc.LIBRARY.fchmod(descriptor, PRIVATE);
    }
    return descriptor;
  }

  private static void requireRegular(Path path, int descriptor) throws IOException {
    if (!Files.isRegularFile(inProc(descriptor))) {
      throw new FileSystemException(path.toString(), null, "is not a regular file");
    }
  }

  private static boolean isAt(Path path, int descriptor) throws IOException {
    try {
      return Objects.equals(
          Files.readAttributes(path, BasicFileAttributes.class, LinkOption.NOFOLLOW_LINKS)
              .fileKey(),
          Files.readAttributes(inProc(descriptor), BasicFileAttributes.class).fileKey());
    } catch (NoSuchFileException removed) {
      return false;
    }
  }

  private static Path inProc(int descriptor) {
    return ProcFs.descriptor(descriptor);
  }

  private static String read(Path path, int descriptor) throws IOException {
    byte[] before = readOnce(path, descriptor);
    for (int reads = 1; reads < MAX_READS; reads++) {
      byte[] again = readOnce(path, descriptor);
      if (Arrays.equals(before, again)) {
        break;
      }
      before = again;
    }
    String text = new String(before, StandardCharsets.UTF_8);
    int end = text.indexOf('\0');
    return end < 0 ? text : text.substring(0, end);
  }

  private static byte[] readOnce(Path path, int descriptor) throws IOException {
    byte[] bytes = new byte[RECORD];
    int count = Descriptors.read(Libc.LIBRARY, descriptor, path, bytes, 0);
    return Arrays.copyOf(bytes, count);
  }
}
