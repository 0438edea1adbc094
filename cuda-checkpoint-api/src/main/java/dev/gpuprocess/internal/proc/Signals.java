package dev.gpuprocess.internal.proc;

import java.util.Map;

/** Signal numbers, and the sets of signals in {@code /proc/PID/status}. */
public final class Signals {

  public static final int SIGTRAP = 5;
  public static final int SIGKILL = 9;
  public static final int SIGTERM = 15;
  public static final int SIGCONT = 18;
  public static final int SIGSTOP = 19;

  private Signals() {}

  /** Returns the set, as the kernel represents it, that consists of one signal. */
  public static long set(int signal) {
    return 1L << (signal - 1);
  }

  /**
   * Reads a set of signals.
   *
   * @param status of a process or thread
   * @param name such as {@code SigBlk}
   * @return no signals if the status has no such field
   */
  public static long set(Map<String, String> status, String name) {
    return Long.parseUnsignedLong(status.getOrDefault(name, "0").strip(), 16);
  }
}
