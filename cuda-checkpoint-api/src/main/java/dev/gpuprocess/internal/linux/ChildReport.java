package dev.gpuprocess.internal.linux;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Optional;

/**
 * What {@code waitid(2)} reports about a child or a traced thread.
 *
 * @param code what has happened, such as {@link #EXITED}
 * @param status the exit code, or the signal; for a stop of a traced thread, the event of ptrace is
 *     above the eight bits of the signal
 */
record ChildReport(int code, int status) {

  /** {@code CLD_EXITED}; the two after it are ends by a signal, the rest are stops. */
  static final int EXITED = 1;

  private static final int DUMPED = 3;

  static final int P_PID = 1;
  static final int P_PIDFD = 3;

  static final int WNOHANG = 1;
  static final int WSTOPPED = 2;
  static final int WEXITED = 4;
  static final int WNOWAIT = 0x1000000;

  /** Threads as well as processes ({@code __WALL}). */
  static final int ALL_TASKS = 0x40000000;

  private static final int INFO_BYTES = 128;
  private static final int INFO_CODE = 8;
  private static final int INFO_PID = 16;
  private static final int INFO_STATUS = 24;

  /**
   * Asks the kernel.
   *
   * @param kind {@link #P_PID} or {@link #P_PIDFD}
   * @param id a number of that kind
   * @param options as of {@code waitid}
   * @return empty when there is nothing to report
   * @throws NativeCallException with {@code ECHILD} without such a child
   */
  static Optional<ChildReport> of(int kind, int id, int options) throws NativeCallException {
    ByteBuffer info = ByteBuffer.allocate(INFO_BYTES).order(ByteOrder.nativeOrder());
    while (Libc.LIBRARY.waitid(kind, id, info.array(), options) != 0) {
      int errno = Libc.errno();
      if (errno != Libc.EINTR) {
        throw Libc.failure("waitid " + id, errno);
      }
    }
    return info.getInt(INFO_PID) == 0
        ? Optional.empty()
        : Optional.of(new ChildReport(info.getInt(INFO_CODE), info.getInt(INFO_STATUS)));
  }

  boolean isEnd() {
    return code <= DUMPED;
  }
}
