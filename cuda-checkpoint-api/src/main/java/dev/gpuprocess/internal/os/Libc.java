package dev.gpuprocess.internal.os;

import dev.gpuprocess.internal.jnr.LibcFunctions;
import dev.gpuprocess.internal.text.NativePath;
import java.nio.file.FileSystemException;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import jnr.ffi.LastError;
import jnr.ffi.Runtime;

/** The C library, and its errors as exceptions. Loaded when first needed. */
final class Libc {

  static final LibcFunctions LIBRARY = NativeLibraries.load(LibcFunctions.class, "c");

  // The same on every architecture that CRIU runs on, which O_DIRECTORY and O_NOFOLLOW are not.
  static final int O_RDONLY = 0;
  static final int O_RDWR = 2;
  static final int O_CREAT = 0x40;
  static final int O_NONBLOCK = 0x800;
  static final int O_PATH = 0x200000;
  private static final int O_CLOEXEC = 0x80000;

  static final int EINTR = 4;
  static final int EAGAIN = 11;
  static final int EACCES = 13;
  static final int ENFILE = 23;
  static final int EMFILE = 24;
  static final int ENOSPC = 28;
  static final int EDQUOT = 122;
  private static final int ENOENT = 2;

  private Libc() {}

  /** Opens a file or directory, not inherited by programs that this JVM starts. */
  static int open(Path path, int flags, int mode) throws FileSystemException {
    int descriptor = LIBRARY.open(NativePath.cString(path), flags | O_CLOEXEC, mode);
    if (descriptor < 0) {
      throw failed(path, "cannot be opened", errno());
    }
    return descriptor;
  }

  /** The error of the last call of this thread. */
  static int errno() {
    return LastError.getLastError(Runtime.getSystemRuntime());
  }

  static FileSystemException failed(Path path, String what, int errno) {
    if (errno == ENOENT) {
      return new NoSuchFileException(path.toString());
    }
    return new FileSystemException(
        path.toString(),
        null,
        "%s: %s (errno %s)%s"
            .formatted(
                what,
                LIBRARY.strerror(errno),
                errno,
                errno == EMFILE
                    ? " in this JVM: close some files, or raise RLIMIT_NOFILE (ulimit -n)"
                    : ""));
  }
}
