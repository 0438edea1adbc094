package dev.gpuprocess.internal.linux;

import dev.gpuprocess.internal.proc.Signals;
import dev.gpuprocess.internal.time.Durations;
import dev.gpuprocess.internal.time.Polling;
import java.time.Duration;
import java.util.Optional;

/** A pidfd, which refers to one process even after its pid is reused. Needs Linux 5.4. */
public final class PidDescriptor implements AutoCloseable {

  private static final Duration KILL_LIMIT = Duration.ofMinutes(1);

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

  /**
   * Opens a pidfd of a child that was just started. A child without one is killed and reaped, so
   * that nothing of it stays.
   *
   * @param pid a child that was not reaped
   */
  public static PidDescriptor ofChild(int pid) throws NativeCallException {
    try {
      return open(pid);
    } catch (NativeCallException e) {
      Libc.LIBRARY.kill(pid, Signals.SIGKILL);
      boolean unused = Polling.until(KILL_LIMIT, () -> reapIfEnded(pid).isPresent());
      throw e;
    }
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
    return reap(ChildReport.P_PIDFD, descriptor, ChildReport.WEXITED)
        .filter(status -> !status.equals(ExitStatus.UNKNOWN));
  }

  /**
   * Reaps a child if it has ended. Needs no descriptor.
   *
   * @param pid a child that no other thread waits for; the JDK reaps the children that it starts
   * @return empty while it runs, traced or not; {@link ExitStatus#UNKNOWN} when its status was not
   *     kept
   */
  public static Optional<ExitStatus> reapIfEnded(int pid) throws NativeCallException {
    return reap(ChildReport.P_PID, pid, ChildReport.WEXITED | ChildReport.WNOHANG);
  }

  /**
   * Waits until a child has ended, without a limit, and reaps it. Needs no descriptor.
   *
   * @param pid a child that no thread of this JVM traces
   * @return its exit status, {@link ExitStatus#UNKNOWN} when it was not kept
   */
  public static ExitStatus awaitAndReap(int pid) throws NativeCallException {
    return reap(ChildReport.P_PID, pid, ChildReport.WEXITED).orElse(ExitStatus.UNKNOWN);
  }

  /** The kernel also reports the stops of a child that a thread of this JVM traces. */
  private static Optional<ExitStatus> reap(int kind, int id, int options)
      throws NativeCallException {
    try {
      return ChildReport.of(kind, id, options).filter(ChildReport::isEnd).map(ExitStatus::of);
    } catch (NativeCallException e) {
      if (e.errno() == Libc.ECHILD) {
        return Optional.of(ExitStatus.UNKNOWN);
      }
      throw e;
    }
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
