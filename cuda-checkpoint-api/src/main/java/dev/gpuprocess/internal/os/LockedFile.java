package dev.gpuprocess.internal.os;

import dev.gpuprocess.internal.jnr.LockFunctions;
import dev.gpuprocess.internal.text.NativePath;
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
import jnr.ffi.LastError;
import jnr.ffi.Runtime;

/**
 * A file that is locked while it is open here ({@code F_OFD_SETLK}). The lock belongs to this one
 * opening of the file: two class loaders of a JVM keep each other out, closing another descriptor
 * of the file drops nothing, and the kernel takes the lock away when the JVM dies. It holds a
 * record of up to {@value #RECORD} bytes, which can be read without the lock.
 *
 * <p>Safe for use by several threads.
 */
final class LockedFile {

  /** How long a record can be, in UTF-8. */
  static final int RECORD = 1024;

  private static final int O_RDONLY = 0;
  private static final int O_RDWR = 2;
  private static final int O_CREAT = 0x40;
  private static final int O_NONBLOCK = 0x800;
  private static final int O_CLOEXEC = 0x80000;

  /** The one flag that differs between the architectures that CUDA runs on. */
  private static final int O_NOFOLLOW =
      System.getProperty("os.arch").equals("aarch64") ? 0x8000 : 0x20000;

  private static final int F_OFD_GETLK = 36;
  private static final int F_OFD_SETLK = 37;
  private static final short F_WRLCK = 1;
  private static final short F_UNLCK = 2;
  private static final int SIZE_OF_FLOCK = 32;
  private static final int SIZE_OF_STATVFS = 112;

  private static final int PRIVATE = 0600;
  private static final int ENOENT = 2;
  private static final int EAGAIN = 11;
  private static final int EACCES = 13;
  private static final int EMFILE = 24;
  private static final int MOST_READS = 10;

  private final Path path;
  private final int descriptor;
  private boolean released;

  private LockedFile(Path path, int descriptor) {
    this.path = path;
    this.descriptor = descriptor;
  }

  /** Loaded when first needed. */
  static final class C {
    static final LockFunctions LIBRARY = NativeLibraries.load(LockFunctions.class, "c");

    private C() {}
  }

  /**
   * Makes the file if it is not there, and locks it.
   *
   * @return empty when it is locked already, by whomever
   */
  static Optional<LockedFile> tryLock(Path path) throws IOException {
    while (true) {
      int descriptor = open(path, O_RDWR | O_CREAT);
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
          C.LIBRARY.close(descriptor);
        }
      }
    }
  }

  /** Tells whether somebody has the lock, and takes it from nobody by that. */
  static boolean isLocked(Path path) throws IOException {
    int descriptor;
    try {
      descriptor = open(path, O_RDONLY);
    } catch (NoSuchFileException notYet) {
      return false;
    }
    try {
      requireRegular(path, descriptor);
      byte[] lock = wholeFile(F_WRLCK);
      if (C.LIBRARY.fcntl(descriptor, F_OFD_GETLK, lock) != 0) {
        throw failed(path, errno());
      }
      return ByteBuffer.wrap(lock).order(ByteOrder.nativeOrder()).getShort() != F_UNLCK;
    } finally {
      C.LIBRARY.close(descriptor);
    }
  }

  /** Reads the record, whoever has the lock; empty when there is no such file. */
  static Optional<String> read(Path path) throws IOException {
    int descriptor;
    try {
      descriptor = open(path, O_RDONLY);
    } catch (NoSuchFileException notYet) {
      return Optional.empty();
    }
    try {
      requireRegular(path, descriptor);
      return Optional.of(read(path, descriptor));
    } finally {
      C.LIBRARY.close(descriptor);
    }
  }

  /** The record; empty when none was written yet. */
  synchronized String read() throws IOException {
    requireHeld();
    return read(path, descriptor);
  }

  /** Replaces the record. */
  synchronized void write(String record) throws IOException {
    requireHeld();
    byte[] text = record.getBytes(StandardCharsets.UTF_8);
    if (text.length > RECORD) {
      throw new IllegalArgumentException("a record of " + text.length + " bytes is too long");
    }
    // Always of one length, so that no reader finds the end of an older one behind it.
    long written = C.LIBRARY.pwrite(descriptor, Arrays.copyOf(text, RECORD), RECORD, 0);
    if (written != RECORD) {
      throw written < 0
          ? failed(path, errno())
          : new FileSystemException(path.toString(), null, "No space left on device");
    }
  }

  /** Lets others have the lock. Does nothing the second time. */
  synchronized void release() {
    if (!released) {
      released = true;
      // A program that is being started may have the descriptor until its exec: unlock for it too.
      C.LIBRARY.fcntl(descriptor, F_OFD_SETLK, wholeFile(F_UNLCK));
      C.LIBRARY.close(descriptor);
    }
  }

  /** Removes the file and lets go of it: nobody will need it any more. */
  synchronized void remove() throws IOException {
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

  /** What {@code statvfs} says of the file system of a directory. */
  static Room room(Path directory) throws IOException {
    byte[] status = new byte[SIZE_OF_STATVFS];
    if (C.LIBRARY.statvfs(bytes(directory), status) != 0) {
      throw failed(directory, errno());
    }
    ByteBuffer values = ByteBuffer.wrap(status).order(ByteOrder.nativeOrder());
    long unit = values.getLong(8);
    return new Room(
        unit * values.getLong(32), values.getLong(40) == 0 ? Long.MAX_VALUE : values.getLong(56));
  }

  /**
   * What a file system has left.
   *
   * @param bytes for who is not root
   * @param files how many; the largest number where it makes them as needed
   */
  record Room(long bytes, long files) {}

  private static int open(Path path, int flags) throws IOException {
    int descriptor =
        C.LIBRARY.open(bytes(path), flags | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, PRIVATE);
    if (descriptor < 0) {
      int errno = errno();
      throw errno == ENOENT ? new NoSuchFileException(path.toString()) : failed(path, errno);
    }
    if ((flags & O_CREAT) != 0) {
      // Whatever the umask; it fails for a file that is not ours, which was to be found out before.
      C.LIBRARY.fchmod(descriptor, PRIVATE);
    }
    return descriptor;
  }

  private static byte[] bytes(Path path) {
    byte[] name = NativePath.bytes(path);
    return Arrays.copyOf(name, name.length + 1);
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
    if (C.LIBRARY.fcntl(descriptor, F_OFD_SETLK, wholeFile(F_WRLCK)) == 0) {
      return true;
    }
    int errno = errno();
    if (errno == EAGAIN || errno == EACCES) {
      return false;
    }
    throw failed(path, errno);
  }

  /** {@code struct flock}: from the beginning of the file, without end; the pid must be 0. */
  private static byte[] wholeFile(short type) {
    return ByteBuffer.allocate(SIZE_OF_FLOCK).order(ByteOrder.nativeOrder()).putShort(type).array();
  }

  private static String read(Path path, int descriptor) throws IOException {
    byte[] before = readOnce(path, descriptor);
    for (int reads = 1; reads < MOST_READS; reads++) {
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
    long count = C.LIBRARY.pread(descriptor, bytes, RECORD, 0);
    if (count < 0) {
      throw failed(path, errno());
    }
    return Arrays.copyOf(bytes, (int) count);
  }

  private static int errno() {
    return LastError.getLastError(Runtime.getSystemRuntime());
  }

  private static FileSystemException failed(Path path, int errno) {
    String reason = C.LIBRARY.strerror(errno);
    return new FileSystemException(
        path.toString(),
        null,
        errno == EMFILE
            ? reason + " in this JVM: close some, or raise RLIMIT_NOFILE (ulimit -n)"
            : reason);
  }
}
