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

  /** Returns whether the process or thread does not exist. */
  public boolean isGone() {
    return errno == Libc.ESRCH;
  }

  /**
   * Returns whether the kernel does not have the system call, or a seccomp filter refuses it. To be
   * asked only about calls that need no permission.
   */
  boolean isUnavailable() {
    return errno == Libc.ENOSYS || errno == Libc.EPERM;
  }

  /** Returns whether the caller lacks permission. */
  public boolean isNotPermitted() {
    return errno == Libc.EPERM;
  }
}
