package dev.gpuprocess.internal.linux;

import dev.gpuprocess.internal.time.Durations;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import java.util.Optional;

/** A pidfd, which refers to one process even after its pid is reused. Needs Linux 5.4. */
public final class PidDescriptor implements AutoCloseable {

  private static final int P_PID = 1;
  private static final int P_PIDFD = 3;
  private static final int WEXITED = 4;

  /** {@code siginfo_t}. */
  private static final int INFO_BYTES = 128;

  private static final int INFO_CODE = 8;
  private static final int INFO_PID = 16;
  private static final int INFO_STATUS = 24;
  private static final int CLD_EXITED = 1;

  private final int descriptor;

  private PidDescriptor(int descriptor) {
    this.descriptor = descriptor;
  }

  /**
   * Opens a pidfd.
   *
   * @param pid a child that was not reaped; for any other process the caller checks the start time
   *     afterwards
   */
  public static PidDescriptor open(int pid) throws NativeCallException {
    return new PidDescriptor(
        Libc.check(Libc.LIBRARY.syscall(SystemCalls.PIDFD_OPEN, pid, 0, 0), "pidfd_open " + pid));
  }

  /** Returns the descriptor. */
  public int number() {
    return descriptor;
  }

  /**
   * Waits until the process has exited. A ptrace stop does not count as an exit.
   *
   * @return false at the end of the time
   */
  public boolean awaitEnd(Duration limit) throws NativeCallException {
    return Poll.await(limit, descriptor);
  }

  /** Waits until this process or the other one has exited. */
  public void awaitEndOr(PidDescriptor other) throws NativeCallException {
    while (!Poll.await(Durations.LONGEST, descriptor, other.descriptor)) {}
  }

  /** Waits until the process has exited, without a limit. */
  public void awaitEnd() throws NativeCallException {
    while (!awaitEnd(Durations.LONGEST)) {}
  }

  /**
   * Reaps the process, which has exited.
   *
   * @return its exit status; empty when it is not a child of this JVM, or its status was not kept
   */
  public Optional<ExitStatus> reap() throws NativeCallException {
    return reap(P_PIDFD, descriptor, WEXITED).filter(status -> !status.equals(ExitStatus.UNKNOWN));
  }

  /**
   * Reaps a child if it has ended. Needs no descriptor.
   *
   * @param pid a child that no other thread waits for; the JDK reaps the children that it starts
   * @return empty while it runs; {@link ExitStatus#UNKNOWN} when its status was not kept
   */
  public static Optional<ExitStatus> reapIfEnded(int pid) throws NativeCallException {
    return reap(P_PID, pid, WEXITED | Libc.WNOHANG);
  }

  private static Optional<ExitStatus> reap(int kind, int id, int options)
      throws NativeCallException {
    ByteBuffer info = ByteBuffer.allocate(INFO_BYTES).order(ByteOrder.nativeOrder());
    while (Libc.LIBRARY.waitid(kind, id, info.array(), options) != 0) {
      int errno = Libc.errno();
      if (errno == Libc.ECHILD) {
        return Optional.of(ExitStatus.UNKNOWN);
      }
      if (errno != Libc.EINTR) {
        throw Libc.failure("waitid", errno);
      }
    }
    if (info.getInt(INFO_PID) == 0) {
      return Optional.empty();
    }
    int status = info.getInt(INFO_STATUS);
    boolean exited = info.getInt(INFO_CODE) == CLD_EXITED;
    return Optional.of(exited ? new ExitStatus(status, 0) : new ExitStatus(-1, status));
  }

  /**
   * Sends a signal.
   *
   * @return false when the process has exited
   */
  public boolean signal(int number) throws NativeCallException {
    long answer = Libc.LIBRARY.syscall(SystemCalls.PIDFD_SEND_SIGNAL, descriptor, number, 0, 0);
    if (answer != 0 && Libc.errno() != Libc.ESRCH) {
      throw Libc.failure("pidfd_send_signal " + number, Libc.errno());
    }
    return answer == 0;
  }

  @Override
  public void close() {
    Libc.close(descriptor);
  }
}
