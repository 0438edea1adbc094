package dev.gpuprocess.internal.os;

import dev.gpuprocess.internal.jnr.DirectoryFunctions;
import dev.gpuprocess.internal.text.NativePath;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.file.FileSystemException;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import jnr.ffi.LastError;
import jnr.ffi.Runtime;

/**
 * Files and directories by descriptor. Unlike the JDK's channels these are not closed by an
 * interrupt of the thread that uses them.
 */
public final class Descriptors {

  // The same on every architecture that CRIU runs on, which O_DIRECTORY and O_NOFOLLOW are not.
  private static final int O_RDONLY = 0;
  private static final int O_PATH = 0x200000;

  private static final int O_CLOEXEC = 0x80000;

  private static final int ENOENT = 2;
  private static final int EINTR = 4;
  private static final int ENFILE = 23;
  private static final int EMFILE = 24;
  private static final int ENOSPC = 28;
  private static final int EDQUOT = 122;

  private Descriptors() {}

  /** Loaded when first needed. */
  private static final class C {
    static final DirectoryFunctions LIBRARY = NativeLibraries.load(DirectoryFunctions.class, "c");
  }

  /** Holds a file or directory without a right to read it; to be closed. */
  public static int hold(Path path) throws FileSystemException {
    return open(path, O_PATH);
  }

  /**
   * Opens a file for reading, whatever characters are in its name.
   *
   * @throws FileSystemException when it cannot be opened
   */
  public static RandomAccessFile read(Path file) throws IOException {
    int descriptor = open(file, O_RDONLY);
    try {
      return new RandomAccessFile("/proc/self/fd/" + descriptor, "r");
    } catch (FileNotFoundException e) {
      throw new FileSystemException(file.toString(), null, "cannot be opened: " + e.getMessage());
    } finally {
      close(descriptor);
    }
  }

  private static int open(Path path, int flags) throws FileSystemException {
    int descriptor = C.LIBRARY.open(NativePath.cString(path), flags | O_CLOEXEC);
    if (descriptor < 0) {
      throw failed(path, "cannot be opened");
    }
    return descriptor;
  }

  /** Nothing is written through these descriptors, so there is no error to hear of. */
  public static void close(int descriptor) {
    C.LIBRARY.close(descriptor);
  }

  /** Waits until a file, or the names in a directory, are on the disk. */
  public static void sync(Path path) throws FileSystemException {
    int descriptor = open(path, O_RDONLY);
    try {
      while (C.LIBRARY.fsync(descriptor) != 0) {
        if (errno() != EINTR) {
          throw failed(path, "cannot be synced");
        }
      }
    } finally {
      close(descriptor);
    }
  }

  private static FileSystemException failed(Path path, String what) {
    int errno = errno();
    if (errno == ENOENT) {
      return new NoSuchFileException(path.toString());
    }
    return new FileSystemException(
        path.toString(), null, what + ": " + C.LIBRARY.strerror(errno) + " (errno " + errno + ")");
  }

  private static int errno() {
    return LastError.getLastError(Runtime.getSystemRuntime());
  }

  /**
   * Whether the system's words for an error are those for a full disk. The JDK hands on no number,
   * and the words are in the language of the JVM's environment.
   */
  public static boolean saysFull(String reason) {
    return reason.contains(C.LIBRARY.strerror(ENOSPC))
        || reason.contains(C.LIBRARY.strerror(EDQUOT));
  }

  /** Whether an error is for want of descriptors, in this JVM or on the machine. */
  public static boolean areUsedUp(Throwable thrown) {
    return thrown instanceof FileSystemException failed
        && failed.getReason() != null
        && (failed.getReason().contains(C.LIBRARY.strerror(EMFILE))
            || failed.getReason().contains(C.LIBRARY.strerror(ENFILE)));
  }
}
