package dev.gpuprocess.criu;

import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.internal.process.Processes;
import dev.gpuprocess.process.ProcessIdentity;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.locks.LockSupport;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Ends a command with all between it and CRIU. Killing the command alone would leave CRIU at work
 * behind a sudo.
 */
final class CliKill {

  private static final Logger LOG = LoggerFactory.getLogger(CliKill.class);
  private static final Duration LIMIT = Duration.ofSeconds(5);
  private static final long PAUSE_NANOS = 500_000;

  private final CliProcess command;
  private final List<ProcessIdentity> below;

  /**
   * Finds out who is to be ended.
   *
   * @param command what was started, and still runs
   * @param criu CRIU, if it has told who it is; else all below the command are ended
   */
  CliKill(CliProcess command, Optional<ProcessIdentity> criu) {
    this.command = command;
    this.below = criu.map(this::lineTo).orElseGet(this::everybody);
  }

  /** CRIU and its ancestors below the command; what CRIU has restored is not among them. */
  private List<ProcessIdentity> lineTo(ProcessIdentity criu) {
    List<ProcessIdentity> line = new ArrayList<>();
    List<Integer> descendants = ProcFs.descendants(command.pid());
    Optional<ProcessIdentity> next = Optional.of(criu);
    while (next.isPresent() && next.get().pid() != command.pid()) {
      line.add(next.get());
      next =
          Processes.stat(next.get())
              .map(ProcStat::parent)
              .filter(descendants::contains)
              .flatMap(ProcessIdentity::of);
    }
    return line;
  }

  private List<ProcessIdentity> everybody() {
    return ProcFs.descendants(command.pid()).stream()
        .flatMap(descendant -> ProcessIdentity.of(descendant).stream())
        .toList();
  }

  /**
   * Ends them.
   *
   * @param order has it done by somebody else, when we have no right to
   * @return {@link ExitStatus#STILL_RUNS} when nobody could end it
   */
  ExitStatus run(Runnable order) {
    boolean mayAll = true;
    for (ProcessIdentity each : below) {
      mayAll &= mayKill(each);
    }
    if (mayAll) {
      ProcessIdentity.of(command.pid()).ifPresent(this::mayKill);
    } else {
      order.run();
      command.terminate();
    }
    Optional<ProcessIdentity> top = ProcessIdentity.of(command.pid());
    Deadline deadline = Deadline.after(LIMIT);
    while (command.isRunning() || below.stream().anyMatch(ProcessIdentity::isAlive)) {
      if (deadline.passed()) {
        return ExitStatus.STILL_RUNS;
      }
      below.forEach(CliKill::letGoOn);
      top.ifPresent(CliKill::letGoOn);
      LockSupport.parkNanos(PAUSE_NANOS);
    }
    return command.awaitExit(deadline).orElse(ExitStatus.STILL_RUNS);
  }

  /** Sudo stops itself when CRIU is stopped to be killed; stopped it does not see CRIU's end. */
  private static void letGoOn(ProcessIdentity each) {
    if (Processes.stat(each).filter(ProcStat::isStopped).isPresent()) {
      try {
        Posix.resume(each);
      } catch (NativeCallException e) {
        LOG.debug("process {} stays stopped", each.pid(), e);
      }
    }
  }

  /** Kills it, if we may. */
  private boolean mayKill(ProcessIdentity each) {
    try {
      Posix.kill(each);
      return true;
    } catch (NativeCallException e) {
      LOG.debug("process {} cannot be ended", each.pid(), e);
      return false;
    }
  }
}
