package dev.gpuprocess.internal.linux;

/**
 * How a process ended.
 *
 * @param code its exit code; -1 if it was killed or the code is not known
 * @param signal the signal that killed it; 0 if it exited, below 0 if that is not known
 */
public record ExitStatus(int code, int signal) {

  /** Not known, because this JVM inherited an ignored SIGCHLD and the kernel kept no status. */
  public static final ExitStatus UNKNOWN = new ExitStatus(-1, -1);

  /** The process has not ended and could not be killed. */
  public static final ExitStatus STILL_RUNS = new ExitStatus(-1, -2);

  /** The process, a CRIU, was not killed because that would have harmed the process it dumps. */
  public static final ExitStatus SPARED = new ExitStatus(-1, -3);

  private static final int SIGNALLED = 128;
  private static final int LAST_SIGNAL = 64;

  static ExitStatus of(ChildReport end) {
    return end.code() == ChildReport.EXITED
        ? new ExitStatus(end.status(), 0)
        : new ExitStatus(-1, end.status());
  }

  /** Returns the status that {@code wait(2)} encodes in a number. */
  public static ExitStatus ofWait(int status) {
    int signal = status & 0x7f;
    return signal == 0 ? new ExitStatus(status >> 8 & 0xff, 0) : new ExitStatus(-1, signal);
  }

  /** Returns the status of the command that a shell ran and whose status the shell returned. */
  public ExitStatus throughShell() {
    return signal == 0 && code > SIGNALLED && code <= SIGNALLED + LAST_SIGNAL
        ? new ExitStatus(-1, code - SIGNALLED)
        : this;
  }

  /** Returns whether a signal killed the process. */
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
    return equals(STILL_RUNS) || equals(SPARED) ? "still running" : "unknown exit";
  }
}
