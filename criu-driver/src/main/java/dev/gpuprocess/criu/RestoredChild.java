package dev.gpuprocess.criu;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.MachineUnfitException;
import dev.gpuprocess.internal.linux.ExitStatus;
import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.linux.PidDescriptor;
import dev.gpuprocess.internal.linux.Processes;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.internal.time.Deadline;
import dev.gpuprocess.internal.time.Uninterrupted;
import dev.gpuprocess.report.ProcessIdentity;
import java.time.Duration;
import java.util.Optional;

/**
 * A process that was restored as a child of this JVM ({@link
 * dev.gpuprocess.options.RestoreOptions#asChild()}). After it has exited it keeps its pid until its
 * exit status is collected here. May be shared between threads.
 */
public final class RestoredChild {

  /**
   * The exit of the process.
   *
   * @param code its exit code; -1 if a signal killed it or the code is not known
   * @param signal the signal that killed it; 0 if it exited normally, below 0 if that is unknown
   */
  public record Exit(int code, int signal) {}

  private static final long PAUSE_NANOS = 1_000_000;

  private final ProcessIdentity process;

  private RestoredChild(ProcessIdentity process) {
    this.process = process;
  }

  /**
   * Names the child.
   *
   * @param process the process, from the report of the restore
   * @return the child
   * @throws IllegalArgumentException if it is not a child of this JVM
   */
  public static RestoredChild of(ProcessIdentity process) {
    if (Processes.stat(process).filter(RestoredChild::isOurs).isEmpty()) {
      throw new IllegalArgumentException(
          "process " + process.pid() + " is not a child of this JVM, or was collected before");
    }
    return new RestoredChild(process);
  }

  private static boolean isOurs(ProcStat stat) {
    return stat.parent() == ProcessHandle.current().pid();
  }

  /** Collects the child with this pid, if there is one and it has ended. */
  static Optional<ExitStatus> collect(int pid) throws NativeCallException {
    return ProcFs.stat(pid).filter(stat -> stat.isDead() && isOurs(stat)).isPresent()
        ? PidDescriptor.reapIfEnded(pid)
        : Optional.empty();
  }

  /**
   * Waits until the process has exited and collects its exit status.
   *
   * @param limit the longest wait
   * @return its exit, which only one caller gets; empty if it is still running
   * @throws IllegalStateException if it was collected before
   */
  public synchronized Optional<Exit> await(Duration limit) {
    Deadline deadline = Deadline.after(limit);
    while (Processes.stat(process).isPresent()) {
      try {
        Optional<ExitStatus> ended = collect(process.pid());
        if (ended.isPresent() || deadline.passed()) {
          return ended.map(status -> new Exit(status.code(), status.signal()));
        }
      } catch (NativeCallException e) {
        throw new MachineUnfitException(
            MachineUnfitException.Reason.NO_CRIU,
            "process " + process.pid() + " cannot be awaited: " + e.getMessage(),
            Failure.of("wait", process.pid()),
            e);
      }
      Uninterrupted.pause(PAUSE_NANOS);
    }
    throw new IllegalStateException("process " + process.pid() + " was collected before");
  }
}
