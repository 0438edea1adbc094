package dev.gpuprocess.internal.proc;

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

  /**
   * Checks every thread: a tracer can stop single threads while the process seems to run.
   *
   * @return empty when no thread is stopped, and for a process that is gone
   */
  public static Optional<Standstill> of(int pid) {
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
            "detach the debugger"));
  }
}
