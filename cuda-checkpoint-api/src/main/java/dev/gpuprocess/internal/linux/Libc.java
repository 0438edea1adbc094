package dev.gpuprocess.internal.linux;

import dev.gpuprocess.internal.text.NativePath;
import java.nio.file.AccessDeniedException;
import java.nio.file.FileSystemException;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import jnr.ffi.LastError;
import jnr.ffi.Runtime;

/** The C library, and its errors as exceptions. Loaded when first needed. */
public final class Libc {

  static final LibcFunctions LIBRARY = NativeLibraries.load(LibcFunctions.class, "c");

  // O_DIRECT, O_DIRECTORY and O_NOFOLLOW depend on the architecture.
  public static final int O_RDONLY = 0;
  public static final int O_RDWR = 2;
  static final int O_CREAT = 0x40;
  static final int O_EXCL = 0x80;
  static final int O_NOCTTY = 0x100;
  private static final int O_WRONLY = 1;
  private static final int O_APPEND = 0x400;
  public static final int O_NONBLOCK = 0x800;
  static final int O_DIRECT = SystemCalls.ARM ? 0x10000 : 0x4000;
  public static final int O_DIRECTORY = SystemCalls.ARM ? 0x4000 : 0x10000;
  static final int O_NOFOLLOW = SystemCalls.ARM ? 0x8000 : 0x20000;
  static final int O_TMPFILE = 0x400000 | O_DIRECTORY;
  public static final int O_PATH = 0x200000;

  /** Also the value of {@code SOCK_CLOEXEC} and {@code EFD_CLOEXEC}. */
  public static final int O_CLOEXEC = 0x80000;

  public static final int F_SETFL = 4;
  static final int F_DUPFD_CLOEXEC = 1030;

  public static final int PROT_READ_WRITE = 3;
  static final int MAP_SHARED = 1;
  static final int MADV_HUGEPAGE = 14;
  static final int MADV_POPULATE_WRITE = 23;

  public static final int AF_UNIX = 1;
  static final int SOCK_SEQPACKET = 5;
  static final int MSG_PEEK = 0x2;
  public static final int MSG_TRUNC = 0x20;
  public static final int MSG_DONTWAIT = 0x40;
  public static final int MSG_NOSIGNAL = 0x4000;
  public static final int MSG_CMSG_CLOEXEC = 0x40000000;

  static final int EPERM = 1;
  public static final int ENOENT = 2;
  public static final int ESRCH = 3;
  public static final int EINTR = 4;
  public static final int ENXIO = 6;
  static final int EBADF = 9;
  static final int ECHILD = 10;
  public static final int EAGAIN = 11;
  static final int EACCES = 13;
  public static final int EFAULT = 14;
  public static final int EEXIST = 17;
  public static final int EINVAL = 22;
  static final int ENFILE = 23;
  public static final int EMFILE = 24;
  static final int ENOSPC = 28;
  static final int EPIPE = 32;
  static final int ENOSYS = 38;
  static final int EOPNOTSUPP = 95;
  static final int ECONNRESET = 104;
  static final int EDQUOT = 122;

  /** The size of a page of memory. Read without a file: this JVM may have no descriptor left. */
  public static final long PAGE_BYTES = LIBRARY.getpagesize();

  private Libc() {}

  /** Returns the functions, whose results go through {@link #check}. */
  public static LibcFunctions functions() {
    return LIBRARY;
  }

  /** Opens a file or directory; programs that this JVM starts do not inherit the descriptor. */
  static int open(Path path, int flags, int mode) throws FileSystemException {
    int descriptor = LIBRARY.open(NativePath.cString(path), flags | O_CLOEXEC, mode);
    if (descriptor < 0) {
      throw failed(path, "cannot be opened", errno());
    }
    return descriptor;
  }

  /** Opens an existing file or directory, in the same way. */
  public static int open(Path path, int flags) throws FileSystemException {
    return open(path, flags, 0);
  }

  /** Opens a file to append to it; it is created with mode 0600 if it does not exist. */
  public static int openToAppend(Path path) throws FileSystemException {
    return open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOCTTY | O_NOFOLLOW, 0600);
  }

  /**
   * Closes a descriptor, unless it is negative. This can fail only for a descriptor that is not
   * open, which would be a bug.
   */
  public static void close(int descriptor) {
    if (descriptor >= 0 && LIBRARY.close(descriptor) != 0 && errno() != EINTR) {
      throw new IllegalStateException("close " + descriptor + ": " + LIBRARY.strerror(errno()));
    }
  }

  /**
   * Makes a pipe, both ends of which are closed at exec. After a failed call JNR copies back values
   * that are not descriptors, mostly 0; they are not returned, so that no caller closes them.
   *
   * @return the end to read from and the end to write to
   */
  public static int[] pipe() throws NativeCallException {
    int[] pair = new int[2];
    check(LIBRARY.pipe2(pair, O_CLOEXEC), "pipe2");
    return pair;
  }

  /** Checks the result of a call that returns -1 and sets errno when it fails. */
  public static int check(long result, String call) throws NativeCallException {
    if (result < 0) {
      throw failure(call, errno());
    }
    return Math.toIntExact(result);
  }

  /** Checks the result of a call that returns the error number itself. */
  public static void checkAnswer(int error, String call) throws NativeCallException {
    if (error != 0) {
      throw failure(call, error);
    }
  }

  public static NativeCallException failure(String call, int errno) {
    return new NativeCallException(call, errno, LIBRARY.strerror(errno));
  }

  /** Returns the system's text for an error, in the language of this JVM. */
  public static String text(int errno) {
    return LIBRARY.strerror(errno);
  }

  /** Returns the error of the last call of this thread. */
  public static int errno() {
    return LastError.getLastError(Runtime.getSystemRuntime());
  }

  static FileSystemException failed(Path path, String what, int errno) {
    if (errno == ENOENT) {
      return new NoSuchFileException(path.toString());
    }
    String reason =
        "%s: %s (errno %s)%s"
            .formatted(
                what,
                LIBRARY.strerror(errno),
                errno,
                errno == EMFILE
                    ? " in this JVM: close some files, or raise RLIMIT_NOFILE (ulimit -n)"
                    : "");
    return errno == EACCES
        ? new AccessDeniedException(path.toString(), null, reason)
        : new FileSystemException(path.toString(), null, reason);
  }
}
