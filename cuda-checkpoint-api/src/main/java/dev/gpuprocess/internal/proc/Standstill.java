package dev.gpuprocess.internal.proc;

import dev.gpuprocess.internal.time.Polling;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;

/**
 * Why a process would not answer the driver: a signal or a tracer has stopped it, or some of its
 * threads.
 *
 * @param what the reason, to follow the name of the process
 * @param cure what lets the process continue
 */
public record Standstill(String what, String cure) {

  private static final String DETACH = "detach the debugger";

  /** A controller that makes system calls in the process holds a thread for less. */
  private static final Duration BORROWED = Duration.ofMillis(100);

  /**
   * Checks every thread: a tracer can stop single threads while the process seems to run.
   *
   * @return empty when no thread is stopped, and for a process that is gone
   */
  public static Optional<Standstill> of(int pid) {
    try (Polling polling = new Polling(BORROWED)) {
      while (true) {
        Optional<Standstill> found = now(pid);
        if (found.isEmpty() || !found.get().cure.equals(DETACH) || !polling.pause()) {
          return found;
        }
      }
    }
  }

  private static Optional<Standstill> now(int pid) {
    List<ProcStat> threads = ProcFs.tasks(pid);
    List<ProcStat> still = threads.stream().filter(ProcStat::isStopped).toList();
    if (still.isEmpty()) {
      return Optional.empty();
    }
    String subject =
        still.size() == threads.size()
            ? "is "
            : "has %s of %s threads (%s for one) "
                .formatted(still.size(), threads.size(), still.get(0).pid());
    if (still.stream().noneMatch(ProcStat::isHeldByTracer)) {
      return Optional.of(new Standstill(subject + "stopped", "kill -CONT " + pid));
    }
    OptionalInt tracer = ProcFs.tracer(pid);
    return Optional.of(
        new Standstill(
            subject
                + "being traced"
                + (tracer.isPresent() ? " by process " + tracer.getAsInt() : ""),
            DETACH));
  }
}
