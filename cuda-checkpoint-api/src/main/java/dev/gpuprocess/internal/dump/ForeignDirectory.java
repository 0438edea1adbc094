package dev.gpuprocess.internal.dump;

import dev.gpuprocess.internal.jnr.FileFunctions;
import dev.gpuprocess.internal.os.NativeLibraries;
import dev.gpuprocess.internal.text.NativePath;
import java.io.IOException;
import java.nio.file.FileSystemException;
import java.nio.file.Path;
import jnr.ffi.Runtime;

/**
 * A directory that belongs to another user, who may try to have something else overwritten: no link
 * is followed, and nothing that exists is written to. For one thread.
 */
final class ForeignDirectory implements AutoCloseable {

  private static final int O_WRONLY = 1;
  private static final int O_CREAT = 0100;
  private static final int O_EXCL = 0200;
  private static final int O_NOFOLLOW = ARM.IS ? 0100000 : 0400000;
  private static final int O_DIRECTORY = ARM.IS ? 040000 : 0200000;
  private static final int O_CLOEXEC = 02000000;
  private static final int OWNER_ONLY = 0600;
  private static final int DIRECTORY_MODE = 0755;

  private static final class ARM {
    static final boolean IS = "aarch64".equals(System.getProperty("os.arch"));
  }

  /** Loaded when first needed. */
  private static final class C {
    static final FileFunctions LIBRARY = NativeLibraries.load(FileFunctions.class, "c");

    static int check(long result, String call, Path path) throws IOException {
      if (result < 0) {
        int errno = Runtime.getRuntime(LIBRARY).getLastError();
        throw new FileSystemException(path.toString(), null, call + ": " + LIBRARY.strerror(errno));
      }
      return Math.toIntExact(result);
    }
  }

  private final Path path;
  private final int descriptor;

  private ForeignDirectory(Path path, int descriptor) {
    this.path = path;
    this.descriptor = descriptor;
  }

  /** Makes one, if there is nothing. */
  static boolean make(Path path) {
    return C.LIBRARY.mkdir(NativePath.cString(path), DIRECTORY_MODE) == 0;
  }

  static ForeignDirectory open(Path path) throws IOException {
    int flags = O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    return new ForeignDirectory(
        path, C.check(C.LIBRARY.open(NativePath.cString(path), flags), "open", path));
  }

  /** Gives it to its user. */
  void give(int user, int group) throws IOException {
    C.check(C.LIBRARY.fchown(descriptor, user, group), "fchown", path);
  }

  /** Removes a file, if it is there. */
  void remove(Path name) {
    C.LIBRARY.unlinkat(descriptor, NativePath.cString(name), 0);
  }

  /**
   * Creates a file, whole or not at all.
   *
   * @throws IOException also when something is there
   */
  void create(Path name, int user, int group, int mode, byte[] content) throws IOException {
    Path shown = path.resolve(name);
    byte[] bytes = NativePath.cString(name);
    int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    int file = C.check(C.LIBRARY.openat(descriptor, bytes, flags, OWNER_ONLY), "create", shown);
    try {
      long written = C.check(C.LIBRARY.write(file, content, content.length), "write", shown);
      if (written != content.length) {
        throw new FileSystemException(shown.toString(), null, "no room for it");
      }
      C.check(C.LIBRARY.fchown(file, user, group), "fchown", shown);
      C.check(C.LIBRARY.fchmod(file, mode), "fchmod", shown);
    } catch (IOException e) {
      C.LIBRARY.unlinkat(descriptor, bytes, 0);
      throw e;
    } finally {
      C.LIBRARY.close(file);
    }
  }

  @Override
  public void close() {
    C.LIBRARY.close(descriptor);
  }
}
