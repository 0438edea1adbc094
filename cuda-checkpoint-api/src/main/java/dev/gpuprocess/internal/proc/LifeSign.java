package dev.gpuprocess.internal.proc;

import java.util.Map;
import java.util.Optional;

/**
 * The state of a process that a tracer may just have killed or released. All threads are read: a
 * kill stays pending for each thread until that thread acts on it.
 */
public enum LifeSign {
  /** It has ended, or is a zombie without living threads. */
  GONE,
  /** It was killed or is exiting, and will certainly be gone. */
  ENDING,
  /** At least one of its threads is traced, and the tracer may still do anything with it. */
  HELD,
  /** No kill is pending, it is not exiting, and no process traces it. */
  FREE;

  /**
   * Reads the state of a process.
   *
   * @param pid its pid; compare the start time before and after, as another process may get the pid
   * @return the state now
   * @throws ProcessUnreadableException when {@code /proc} cannot be read
   */
  public static LifeSign of(long pid) {
    boolean living = false;
    boolean exiting = true;
    boolean held = false;
    for (int number : ProcFs.threads(pid)) {
      // In this order: a thread that acts on a kill takes it from what is pending, then is exiting.
      Map<String, String> status = ProcFs.status(pid, number);
      Optional<ProcStat> thread = ProcFs.task(pid, number);
      if (thread.isEmpty() || thread.get().isDead()) {
        continue;
      }
      if (isKilled(status)) {
        return ENDING;
      }
      living = true;
      exiting &= thread.get().isExiting();
      held |= thread.get().isHeldByTracer() || !status.getOrDefault("TracerPid", "0").equals("0");
    }
    if (!living) {
      return GONE;
    }
    return exiting ? ENDING : held ? HELD : FREE;
  }

  private static boolean isKilled(Map<String, String> status) {
    long pending = Signals.set(status, "SigPnd") | Signals.set(status, "ShdPnd");
    return (pending & Signals.set(Signals.SIGKILL)) != 0;
  }
}
