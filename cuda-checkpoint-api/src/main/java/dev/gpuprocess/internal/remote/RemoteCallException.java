package dev.gpuprocess.internal.remote;

import java.io.IOException;

/** A system call that returned an error in another process. */
public final class RemoteCallException extends IOException {

  private static final long serialVersionUID = 1;

  private final SystemCall call;
  private final int errno;

  RemoteCallException(int task, SystemCall call, int errno) {
    super("%s in thread %s failed (errno %s)".formatted(call, task, errno));
    this.call = call;
    this.errno = errno;
  }

  /** Returns the system call. */
  public SystemCall call() {
    return call;
  }

  /** Returns the error number of {@code errno.h}. */
  public int errno() {
    return errno;
  }
}
