package dev.gpuprocess.internal.os;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
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
 * A file that is locked while it is open here ({@code F_OFD_SETLK}). The lock belongs to this one
 * opening of the file: two class loaders of a JVM keep each other out, closing another descriptor
 * of the file drops nothing, and the kernel takes the lock away when the JVM dies. It holds a
 * record of up to {@value #RECORD} bytes, which can be read without the lock.
 *
 * <p>Safe for use by several threads.
 */
public final class LockedFile {

  /** How long a record can be, in UTF-8. */
  static final int RECORD = 1024;

  /** The one flag that differs between the architectures that CUDA runs on. */
  private static final int O_NOFOLLOW =
      System.getProperty("os.arch").equals("aarch64") ? 0x8000 : 0x20000;

  private static final int F_OFD_GETLK = 36;
  private static final int F_OFD_SETLK = 37;
  private static final short F_WRLCK = 1;
  private static final short F_UNLCK = 2;
  private static final int SIZE_OF_FLOCK = 32;

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
   * Makes the file if it is not there, and locks it.
   *
   * @return empty when it is locked already, by whomever
   */
  public static Optional<LockedFile> tryLock(Path path) throws IOException {
    while (true) {
      int descriptor = open(path, Libc.O_RDWR | Libc.O_CREAT);
      boolean keep = false;
      try {
        requireRegular(path, descriptor);
        if (!lock(path, descriptor)) {
          return Optional.empty();
        }
        // Whoever tidies up may have removed it before it was locked; then others lock another one.
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

  /** Tells whether somebody has the lock, and takes it from nobody by that. */
  public static boolean isLocked(Path path) throws IOException {
    int descriptor;
    try {
      descriptor = open(path, Libc.O_RDONLY);
    } catch (NoSuchFileException notYet) {
      return false;
    }
    try {
      requireRegular(path, descriptor);
      byte[] lock = wholeFile(F_WRLCK);
      if (Libc.LIBRARY.fcntl(descriptor, F_OFD_GETLK, lock) != 0) {
        throw Libc.failed(path, "cannot be asked for its lock", Libc.errno());
      }
      return ByteBuffer.wrap(lock).order(ByteOrder.nativeOrder()).getShort() != F_UNLCK;
    } finally {
      Libc.LIBRARY.close(descriptor);
    }
  }

  /** Reads the record, whoever has the lock; empty when there is no such file. */
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

  /** The record; empty when none was written yet. */
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
    // Always of one length, so that no reader finds the end of an older one behind it.
    long written = Libc.LIBRARY.pwrite(descriptor, Arrays.copyOf(text, RECORD), RECORD, 0);
    if (written != RECORD) {
      throw written < 0
          ? Libc.failed(path, "cannot be written", Libc.errno())
          : new FileSystemException(path.toString(), null, "No space left on device");
    }
  }

  /** Lets others have the lock. Does nothing the second time. */
  public synchronized void release() {
    if (!released) {
      released = true;
      // A program that is being started may have the descriptor until its exec: unlock for it too.
      Libc.LIBRARY.fcntl(descriptor, F_OFD_SETLK, wholeFile(F_UNLCK));
      Libc.LIBRARY.close(descriptor);
    }
  }

  /** Removes the file and lets go of it: nobody will need it any more. */
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
    int descriptor = Libc.open(path, flags | O_NOFOLLOW | Libc.O_NONBLOCK, PRIVATE);
    if ((flags & Libc.O_CREAT) != 0) {
      // Whatever the umask; it fails for a file that is not ours, which was to be found out before.
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
    return Path.of("/proc/self/fd/" + descriptor);
  }

  private static boolean lock(Path path, int descriptor) throws IOException {
    if (Libc.LIBRARY.fcntl(descriptor, F_OFD_SETLK, wholeFile(F_WRLCK)) == 0) {
      return true;
    }
    int errno = Libc.errno();
    if (errno == Libc.EAGAIN || errno == Libc.EACCES) {
      return false;
    }
    throw Libc.failed(path, "cannot be locked", errno);
  }

  /** {@code struct flock}: from the beginning of the file, without end; the pid must be 0. */
  private static byte[] wholeFile(short type) {
    return ByteBuffer.allocate(SIZE_OF_FLOCK).order(ByteOrder.nativeOrder()).putShort(type).array();
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
    long count = Libc.LIBRARY.pread(descriptor, bytes, RECORD, 0);
    if (count < 0) {
      throw Libc.failed(path, "cannot be read", Libc.errno());
    }
    return Arrays.copyOf(bytes, (int) count);
  }
}
