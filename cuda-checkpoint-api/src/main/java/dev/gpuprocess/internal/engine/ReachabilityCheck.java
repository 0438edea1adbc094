package dev.gpuprocess.internal.engine;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.error.ProcessStoppedException;
import dev.gpuprocess.internal.linux.Processes;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.internal.proc.Standstill;
import dev.gpuprocess.process.ProcessIdentity;
import java.util.Optional;

/**
 * Refuses processes that a driver call must not touch: on a stopped process it would hang for ever,
 * on a reused pid it would hit a stranger.
 */
public final class ReachabilityCheck {

  private ReachabilityCheck() {}

  /**
   * Checks a process; forgets one that has ended.
   *
   * @param verb what is about to be done to it, for exceptions
   * @throws NoSuchProcessException when it has ended
   * @throws ProcessStoppedException when it is stopped, traced or frozen
   */
  public static void require(TrackedProcess target, String verb) {
    int pid = target.pid();
    if (!target.identity.isAlive()) {
      target.forget();
    }
    Optional<ProcStat> stat = Processes.stat(target.identity);
    if (stat.isEmpty()) {
      throw new NoSuchProcessException(
          "process %s has ended%s"
              .formatted(
                  pid,
                  ProcessIdentity.of(pid).isPresent()
                      ? ", and its pid belongs to another process now"
                      : ""),
          Failure.of(verb, pid));
    }
    if (stat.get().isDead()) {
      throw new NoSuchProcessException(
          "process %s has ended; its parent %s has not reaped it yet"
              .formatted(pid, stat.get().parent()),
          Failure.of(verb, pid));
    }
    if (ProcFs.isFrozen(pid)) {
      throw stopped(pid, "is in a frozen cgroup", "thaw it", verb);
    }
    Standstill.of(pid)
        .ifPresent(
            still -> {
              throw stopped(
                  pid, still.what(), "let it continue (%s)".formatted(still.cure()), verb);
            });
  }

  private static ProcessStoppedException stopped(int pid, String what, String cure, String verb) {
    return new ProcessStoppedException(
        "process %s %s, and a driver call on it would hang: %s and try again"
            .formatted(pid, what, cure),
        Failure.of(verb, pid));
  }
}
