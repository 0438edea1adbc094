package dev.gpuprocess.internal.linux;

import java.io.IOException;

/** A C library function failed. */
public final class NativeCallException extends IOException {

  private static final long serialVersionUID = 1L;

  private final int errno;

  NativeCallException(String call, int errno, String text) {
    super(call + ": " + text);
    this.errno = errno;
  }

  public int errno() {
    return errno;
  }

  /** Whether there is no such process or thread. */
  public boolean isGone() {
    return errno == Libc.ESRCH;
  }

  /** Whether the caller may not do that. */
  public boolean isNotPermitted() {
    return errno == Libc.EPERM;
  }
}
