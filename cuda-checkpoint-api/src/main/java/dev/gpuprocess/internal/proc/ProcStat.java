package dev.gpuprocess.internal.proc;

/**
 * The fields of {@code /proc/PID/stat} that matter here.
 *
 * @param pid the process id
 * @param name the command name, at most 15 bytes, which the process may choose
 * @param state the kernel's letter: R, S, D, T (stopped), t (traced), Z (zombie), X (dead), I. Of a
 *     process whose first thread has ended while others live, that of one that lives
 * @param parent the parent's pid
 * @param group the process group
 * @param session the session
 * @param flags the kernel's {@code PF_} flags, of the same thread as the state
 * @param startTicks when it started, in clock ticks since boot
 * @param firstThreadEnded whether the process goes on without the thread that it began with, as
 *     after {@code pthread_exit} in {@code main}; the kernel shows it as a zombie then
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
  private static final int FIELDS = 20;

  /**
   * Reads the line.
   *
   * @throws IllegalArgumentException when it is none
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

  /** The process as its first thread is no more and this one lives on. */
  ProcStat livingAs(ProcStat thread) {
    return new ProcStat(
        pid, name, thread.state, parent, group, session, thread.flags, startTicks, true);
  }

  /**
   * Tells whether signals or a tracer keep it from running.
   *
   * @return true in the states T and t
   */
  public boolean isStopped() {
    return state == 'T' || state == 't';
  }

  /**
   * Tells whether a tracer keeps it from running.
   *
   * @return true in the state t
   */
  public boolean isHeldByTracer() {
    return state == 't';
  }

  /**
   * Tells whether it has ended.
   *
   * @return true for a zombie, which only waits for its parent
   */
  public boolean isDead() {
    return state == 'Z' || state == 'X' || state == 'x';
  }

  /**
   * Tells whether it is ending at this moment.
   *
   * @return true from when its exit began
   */
  public boolean isExiting() {
    return (flags & PF_EXITING) != 0;
  }

  /**
   * Tells whether it is the leader of its session.
   *
   * @return true when session and pid are one number
   */
  public boolean leadsSession() {
    return session == pid;
  }
}
