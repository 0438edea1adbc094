package dev.gpuprocess.internal.os;

import java.io.IOException;

/** A call of the C library that failed. */
public final class ErrnoException extends IOException {

  private static final long serialVersionUID = 1;

  private final int errno;

  ErrnoException(String call, int errno) {
    super("%s: %s (errno %s)".formatted(call, Libc.LIBRARY.strerror(errno), errno));
    this.errno = errno;
  }

  /** As {@code errno.h} has it. */
  public int errno() {
    return errno;
  }
}
