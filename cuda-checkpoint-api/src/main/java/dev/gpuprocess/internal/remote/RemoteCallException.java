package dev.gpuprocess.internal.remote;

import java.io.IOException;

/** A system call that was made in another process and answered an error. */
public final class RemoteCallException extends IOException {

  private static final long serialVersionUID = 1;

  private final SystemCall call;
  private final int errno;

  RemoteCallException(int task, SystemCall call, int errno) {
    super("%s in thread %s failed (errno %s)".formatted(call, task, errno));
    this.call = call;
    this.errno = errno;
  }

  /** Which. */
  public SystemCall call() {
    return call;
  }

  /** As {@code errno.h} has it. */
  public int errno() {
    return errno;
  }
}
