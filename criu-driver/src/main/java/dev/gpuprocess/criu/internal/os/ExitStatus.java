package dev.gpuprocess.criu.internal.os;

/**
 * How a process ended.
 *
 * @param code its exit code, -1 when it was killed or nobody knows
 * @param signal what killed it, 0 when it exited, below 0 when nobody knows
 */
public record ExitStatus(int code, int signal) {

  /** The launcher of this JVM ignored SIGCHLD, so the kernel kept no status. */
  public static final ExitStatus UNKNOWN = new ExitStatus(-1, -1);

  /** It has not ended, and we have no right to end it. */
  public static final ExitStatus STILL_RUNS = new ExitStatus(-1, -2);

  private static final int SIGNALLED = 128;
  private static final int LAST_SIGNAL = 64;

  public static ExitStatus ofWaitStatus(int status) {
    int signal = status & 0x7f;
    return signal == 0 ? new ExitStatus(status >> 8 & 0xff, 0) : new ExitStatus(-1, signal);
  }

  /** The same of what a shell has run and told of in its own exit code. */
  public ExitStatus throughShell() {
    return signal == 0 && code > SIGNALLED && code <= SIGNALLED + LAST_SIGNAL
        ? new ExitStatus(-1, code - SIGNALLED)
        : this;
  }

  public boolean isCrash() {
    return signal > 0;
  }

  /** {@return such as {@code exit 1} or {@code signal 9}} */
  @Override
  public String toString() {
    if (signal > 0) {
      return "signal " + signal;
    }
    if (signal == 0) {
      return "exit " + code;
    }
    return equals(STILL_RUNS) ? "still running" : "unknown exit";
  }
}
