package dev.gpuprocess.proc;

/**
 * The fields of {@code /proc/PID/stat} that matter here.
 *
 * @param pid the process id
 * @param name the command name, at most 15 bytes
 * @param state the kernel's letter: R, S, D, T (stopped), t (traced), Z (zombie), X (dead), I
 * @param parent the parent's pid
 * @param group the process group
 * @param session the session
 * @param flags the kernel's {@code PF_} flags
 * @param startTicks when it started, in clock ticks since boot
 */
public record ProcStat(
    int pid,
    String name,
    char state,
    int parent,
    int group,
    int session,
    long flags,
    long startTicks) {

  private static final long PF_EXITING = 0x4;

  /**
   * Tells whether signals or a tracer keep it from running.
   *
   * @return true in the states T and t
   */
  public boolean isStopped() {
    return state == 'T' || state == 't';
  }

  /**
   * Tells whether it has ended.
   *
   * @return true for a zombie, which only waits for its parent
   */
  public boolean isDead() {
    return state == 'Z' || state == 'X';
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
