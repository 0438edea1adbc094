package dev.gpuprocess.internal.linux;

/**
 * The limit for the size of files that a process may write ({@code RLIMIT_FSIZE}). A process that
 * exceeds it is killed by SIGXFSZ, unless it ignores that signal, as this JVM does.
 */
public final class FileSizeLimit {

  /** The signal. */
  public static final int SIGXFSZ = 25;

  private static final int RLIMIT_FSIZE = 1;
  private static final long INFINITE = -1;
  private static final int ITSELF = 0;

  private FileSizeLimit() {}

  /**
   * Returns the largest file that a child of this JVM may write once its limit is raised.
   *
   * @return bytes; {@link Long#MAX_VALUE} without a limit
   */
  public static long ofChildren() throws NativeCallException {
    long hard = limits(ITSELF)[1];
    return hard < 0 ? Long.MAX_VALUE : hard;
  }

  /** Raises the limit of a child as far as this JVM may. */
  public static void raise(int child) throws NativeCallException {
    long[] now = limits(child);
    if (now[0] == INFINITE) {
      return;
    }
    long[] none = {INFINITE, INFINITE};
    if (Libc.functions().prlimit(child, RLIMIT_FSIZE, none, new long[2]) != 0) {
      long[] most = {now[1], now[1]};
      Libc.check(Libc.functions().prlimit(child, RLIMIT_FSIZE, most, new long[2]), "prlimit");
    }
  }

  private static long[] limits(int pid) throws NativeCallException {
    long[] now = new long[2];
    Libc.check(Libc.functions().prlimit(pid, RLIMIT_FSIZE, null, now), "prlimit");
    return now;
  }
}
