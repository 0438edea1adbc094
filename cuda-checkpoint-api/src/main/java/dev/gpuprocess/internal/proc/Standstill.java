package dev.gpuprocess.internal.proc;

import dev.gpuprocess.internal.time.Polling;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;

/**
 * The reason why a process does not answer the driver: a signal or a tracer has stopped it, or some
 * of its threads.
 *
 * @param what the reason, to follow the name of the process
 * @param cure the action that continues the process
 * @param mayLast the maximum duration if the stop ends by itself: a controller that makes remote
 *     calls in a process stops its threads too. Zero for a stop that does not end
 */
public record Standstill(String what, String cure, Duration mayLast) {

  /** A controller holds a thread for less than a millisecond, on a machine that is not busy. */
  private static final Duration BORROWED = Duration.ofSeconds(1);

  /** A stop by this JVM is longer only if a remote call has failed. */
  private static final Duration BORROWED_BY_US = Duration.ofSeconds(10);

  /**
   * Checks every thread: a tracer can stop single threads while the process seems to run. Waits for
   * the end of a stop that may end by itself.
   *
   * @return empty when no thread is stopped, and for a process that is gone
   */
  public static Optional<Standstill> of(int pid) {
    Optional<Standstill> found = now(pid);
    try (Polling polling = new Polling(found.map(Standstill::mayLast).orElse(Duration.ZERO))) {
      while (found.isPresent() && !found.get().mayLast.isZero() && polling.pause()) {
        found = now(pid);
      }
    }
    return found;
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
      return Optional.of(new Standstill(subject + "stopped", "kill -CONT " + pid, Duration.ZERO));
    }
    OptionalInt tracer = ProcFs.tracer(pid);
    boolean ours = tracer.isPresent() && tracer.getAsInt() == ProcessHandle.current().pid();
    return Optional.of(
        new Standstill(
            subject
                + "being traced"
                + (tracer.isPresent() ? " by process " + tracer.getAsInt() : ""),
            "detach the debugger",
            ours ? BORROWED_BY_US : BORROWED));
  }
}
