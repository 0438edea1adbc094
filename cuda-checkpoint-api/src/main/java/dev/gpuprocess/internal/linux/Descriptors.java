package dev.gpuprocess.internal.linux;

import dev.gpuprocess.internal.proc.ProcFs;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;

/**
 * Files and directories by descriptor. Unlike the JDK's channels, these are not closed when a
 * thread that uses them is interrupted.
 */
public final class Descriptors {

  private static final int SYNC_FILE_RANGE_WRITE = 2;

  private static final Path NOTHING = Path.of("/dev/null");

  private Descriptors() {}

  /**
   * Opens a descriptor that pins a file or directory, without needing permission to read it ({@code
   * O_PATH}).
   */
  public static int hold(Path path) throws FileSystemException {
    return Libc.open(path, Libc.O_PATH, 0);
  }

  /** Does the same without following a link at the end of the path. */
  static int holdItself(Path path) throws FileSystemException {
    return Libc.open(path, Libc.O_PATH | Libc.O_NOFOLLOW, 0);
  }

  /**
   * Opens a file for reading, whatever characters are in its name.
   *
   * @throws FileSystemException when it cannot be opened
   */
  public static RandomAccessFile read(Path file) throws IOException {
    return open(file, Libc.O_RDONLY, "r");
  }

  /**
   * Opens a regular file for reading. A link or special file is refused without blocking, also when
   * another user replaces the file at the last moment.
   *
   * @throws FileSystemException when it cannot be opened, or is not a regular file
   */
  public static RandomAccessFile readRegular(Path file) throws IOException {
    int descriptor = Libc.open(file, Libc.O_RDONLY | Libc.O_NOFOLLOW | Libc.O_NONBLOCK, 0);
    try {
      Path held = ProcFs.descriptor(descriptor);
      if (!Files.isRegularFile(held)) {
        throw new FileSystemException(file.toString(), null, "is not a regular file");
      }
      return new RandomAccessFile(held.toFile(), "r");
    } catch (FileNotFoundException e) {
      throw new FileSystemException(file.toString(), null, "cannot be opened: " + e.getMessage());
    } finally {
      close(descriptor);
    }
  }

  /**
   * Opens a file that exists for reading and writing, whatever characters are in its name.
   *
   * @throws FileSystemException when it cannot be opened
   */
  public static RandomAccessFile readAndWrite(Path file) throws IOException {
    return open(file, Libc.O_RDWR, "rw");
  }

  private static RandomAccessFile open(Path file, int flags, String mode) throws IOException {
    int descriptor = Libc.open(file, flags, 0);
    try {
      return new RandomAccessFile(ProcFs.descriptor(descriptor).toFile(), mode);
    } catch (FileNotFoundException e) {
      throw new FileSystemException(file.toString(), null, "cannot be opened: " + e.getMessage());
    } finally {
      close(descriptor);
    }
  }

  /**
   * Opens a file as another process had it open.
   *
   * @param flags as for {@code open}
   * @param position where the next byte is read or written
   * @return a descriptor for {@link #close}, which is inherited by no child
   */
  public static int openAgain(Path path, int flags, long position) throws IOException {
    int descriptor = Libc.open(path, flags | Libc.O_CLOEXEC);
    if (position != 0 && Libc.functions().lseek(descriptor, position, 0) != position) {
      close(descriptor);
      throw new IOException("position " + position + " cannot be set");
    }
    return descriptor;
  }

  /** Opens a file for reading. */
  public static int openToRead(Path path) throws FileSystemException {
    return Libc.open(path, Libc.O_RDONLY, 0);
  }

  /** Closes a descriptor. Nothing is written through it, so no error is lost. */
  public static void close(int descriptor) {
    Libc.LIBRARY.close(descriptor);
  }

  /**
   * Checks that that many more descriptors can be opened now. Another thread may use them at any
   * time.
   *
   * @throws FileSystemException when fewer can be opened
   */
  public static void requireFree(int count) throws FileSystemException {
    int[] opened = new int[count];
    int open = 0;
    try {
      while (open < count) {
        opened[open] = Libc.open(NOTHING, Libc.O_RDONLY, 0);
        open++;
      }
    } finally {
      while (open > 0) {
        open--;
        close(opened[open]);
      }
    }
  }

  /**
   * Writes all bytes at a place of a file ({@code pwrite}), also if signals interrupt that.
   *
   * @param path the name of the file in messages
   * @throws FileSystemException when not all bytes can be written
   */
  static void write(LibcFunctions libc, int descriptor, Path path, byte[] bytes, long offset)
      throws FileSystemException {
    int done = 0;
    while (done < bytes.length) {
      byte[] rest = done == 0 ? bytes : Arrays.copyOfRange(bytes, done, bytes.length);
      long count = libc.pwrite(descriptor, rest, rest.length, offset + done);
      if (count > 0) {
        done += (int) count;
      } else if (count == 0) {
        throw new FileSystemException(path.toString(), null, "cannot be written any further");
      } else {
        failUnlessInterrupted(path, "cannot be written");
      }
    }
  }

  /**
   * Reads from a place of a file ({@code pread}), also if signals interrupt that.
   *
   * @return the number of bytes; 0 at the end of the file
   */
  static int read(LibcFunctions libc, int descriptor, Path path, byte[] bytes, long offset)
      throws FileSystemException {
    while (true) {
      long count = libc.pread(descriptor, bytes, bytes.length, offset);
      if (count >= 0) {
        return (int) count;
      }
      failUnlessInterrupted(path, "cannot be read");
    }
  }

  private static void failUnlessInterrupted(Path path, String what) throws FileSystemException {
    int errno = Libc.errno();
    if (errno != Libc.EINTR) {
      throw Libc.failed(path, what, errno);
    }
  }

  /** Waits until a file, or the names in a directory, are on the disk. */
  public static void sync(Path path) throws FileSystemException {
    int descriptor = Libc.open(path, Libc.O_RDONLY, 0);
    try {
      while (Libc.LIBRARY.fsync(descriptor) != 0) {
        int errno = Libc.errno();
        if (errno != Libc.EINTR) {
          throw Libc.failed(path, "cannot be synced", errno);
        }
      }
    } finally {
      close(descriptor);
    }
  }

  /**
   * Has the kernel start to write a part of a file to its disk ({@code sync_file_range}). Does not
   * wait for the disk, unless that has too much to do already.
   *
   * @throws FileSystemException when the file cannot be opened, or its file system cannot do it
   */
  public static void startWriteback(Path file, long from, long bytes) throws FileSystemException {
    int descriptor = Libc.open(file, Libc.O_RDONLY, 0);
    try {
      if (Libc.LIBRARY.sync_file_range(descriptor, from, bytes, SYNC_FILE_RANGE_WRITE) != 0) {
        throw Libc.failed(file, "cannot be written back early", Libc.errno());
      }
    } finally {
      close(descriptor);
    }
  }

  /**
   * Returns whether an error message is the system's message for a full disk. The JDK does not keep
   * errno, and the message is in the language of the JVM's locale.
   */
  public static boolean saysFull(String reason) {
    return reason.contains(Libc.LIBRARY.strerror(Libc.ENOSPC))
        || reason.contains(Libc.LIBRARY.strerror(Libc.EDQUOT));
  }

  /**
   * Returns whether an error means that descriptors have run out, in this JVM or on the machine.
   */
  public static boolean areUsedUp(Throwable thrown) {
    String reason =
        thrown instanceof FileSystemException failed
            ? failed.getReason()
            : thrown instanceof FileNotFoundException ? thrown.getMessage() : null;
    return reason != null
        && (reason.contains(Libc.LIBRARY.strerror(Libc.EMFILE))
            || reason.contains(Libc.LIBRARY.strerror(Libc.ENFILE)));
  }
}
