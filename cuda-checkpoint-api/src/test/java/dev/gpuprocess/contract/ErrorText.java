package dev.gpuprocess.contract;

import dev.gpuprocess.internal.linux.LibcFunctions;
import dev.gpuprocess.internal.linux.NativeLibraries;

/**
 * What this machine calls an error, in the language of its user: the JDK's messages end with it.
 */
public final class ErrorText {

  /** Permission denied. */
  public static final String EACCES = of(13);

  /** No space left on device. */
  public static final String ENOSPC = of(28);

  /** Read-only file system. */
  public static final String EROFS = of(30);

  private ErrorText() {}

  private static String of(int errno) {
    return NativeLibraries.load(LibcFunctions.class, "c").strerror(errno);
  }
}
