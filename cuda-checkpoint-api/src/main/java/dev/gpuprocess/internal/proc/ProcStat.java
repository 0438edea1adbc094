package dev.gpuprocess.internal.proc;

/**
 * The fields of {@code /proc/PID/stat} that matter here.
 *
 * @param pid the process id
 * @param name the command name, at most 15 bytes, which the process may choose
 * @param state the kernel's letter: R, S, D, T (stopped), t (traced), Z (zombie), X (dead), I. Of a
 *     process whose main thread has ended, that of a thread that is alive
 * @param parent the parent's pid
 * @param group the process group
 * @param session the session
 * @param flags the kernel's {@code PF_} flags, of the same thread as the state
 * @param startTicks when it started, in clock ticks since boot
 * @param firstThreadEnded whether the process lives on without its main thread, as after {@code
 *     pthread_exit} in {@code main}; the kernel then shows it as a zombie
 */
public record ProcStat(
    int pid,
    String name,
    char state,
    int parent,
    int group,
    int session,
    long flags,
    long startTicks,
    boolean firstThreadEnded) {

  private static final long PF_EXITING = 0x4;

  /** Set when a thread acts on a signal that kills it, and before it exits. */
  private static final long PF_SIGNALED = 0x400;

  private static final int FIELDS = 20;

  /**
   * Parses the line.
   *
   * @throws IllegalArgumentException when it is malformed
   */
  static ProcStat parse(String line) {
    // The name is in parentheses and may itself hold blanks, parentheses and newlines.
    int open = line.indexOf('(');
    int close = line.lastIndexOf(')');
    if (open < 0 || close < open) {
      throw new IllegalArgumentException("it has no name");
    }
    String[] rest = line.substring(close + 1).strip().split(" ");
    if (rest.length < FIELDS || rest[0].length() != 1) {
      throw new IllegalArgumentException("it has too few fields");
    }
    return new ProcStat(
        Integer.parseInt(line.substring(0, open).strip()),
        line.substring(open + 1, close),
        rest[0].charAt(0),
        Integer.parseInt(rest[1]),
        Integer.parseInt(rest[2]),
        Integer.parseInt(rest[3]),
        Long.parseLong(rest[6]),
        Long.parseLong(rest[19]),
        false);
  }

  /** Returns this process, whose main thread has ended, with the state of a living thread. */
  ProcStat livingAs(ProcStat thread) {
    return new ProcStat(
        pid, name, thread.state, parent, group, session, thread.flags, startTicks, true);
  }

  /** Returns whether a signal or a tracer has stopped it (state T or t). */
  public boolean isStopped() {
    return state == 'T' || state == 't';
  }

  /** Returns whether a tracer has stopped it (state t). */
  public boolean isHeldByTracer() {
    return state == 't';
  }

  /** Returns whether it has ended; a zombie has. */
  public boolean isDead() {
    return state == 'Z' || state == 'X' || state == 'x';
  }

  /** Returns whether it is exiting, from the beginning of its exit, also while it dumps core. */
  public boolean isExiting() {
    return (flags & (PF_EXITING | PF_SIGNALED)) != 0;
  }

  /** Returns whether it is the leader of its session. */
  public boolean leadsSession() {
    return session == pid;
  }
}
