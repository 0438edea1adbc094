package dev.gpuprocess.internal.remote;

import java.io.IOException;

/** A system call that returned an error in another process. */
public final class RemoteCallException extends IOException {

  private static final long serialVersionUID = 1;

  private final int errno;

  RemoteCallException(int task, SystemCall call, int errno) {
    super("%s in thread %s failed (errno %s)".formatted(call, task, errno));
    this.errno = errno;
  }

  /** Returns the error number of {@code errno.h}. */
  public int errno() {
    return errno;
  }
}
