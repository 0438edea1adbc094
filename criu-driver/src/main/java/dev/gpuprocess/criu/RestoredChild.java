package dev.gpuprocess.criu;

import dev.gpuprocess.criu.internal.os.Deadline;
import dev.gpuprocess.criu.internal.os.ExitStatus;
import dev.gpuprocess.criu.internal.os.NativeCallException;
import dev.gpuprocess.criu.internal.os.Posix;
import dev.gpuprocess.error.CriuUnavailableException;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.internal.process.Processes;
import dev.gpuprocess.process.ProcessIdentity;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.locks.LockSupport;

/**
 * A process that was restored as a child of this JVM ({@link
 * dev.gpuprocess.options.RestoreOptions#asChild()}). When it has ended it keeps its pid until it is
 * collected here. May be shared between threads.
 */
public final class RestoredChild {

  /**
   * How it ended.
   *
   * @param code its exit code, -1 when a signal ended it or nobody knows
   * @param signal what ended it, 0 when it exited by itself, below 0 when nobody knows
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
   * @param process as the restore's report tells it
   * @return the child
   * @throws IllegalArgumentException when it is no child of this JVM
   */
  public static RestoredChild of(ProcessIdentity process) {
    if (Processes.stat(process).filter(RestoredChild::isOurs).isEmpty()) {
      throw new IllegalArgumentException(
          "process " + process.pid() + " is no child of this JVM, or was collected before");
    }
    return new RestoredChild(process);
  }

  private static boolean isOurs(ProcStat stat) {
    return stat.parent() == ProcessHandle.current().pid();
  }

  /** Collects the child with this pid, if there is one and it has ended. */
  static Optional<ExitStatus> collect(int pid) throws NativeCallException {
    return ProcFs.stat(pid).filter(stat -> stat.isDead() && isOurs(stat)).isPresent()
        ? Posix.reap(pid)
        : Optional.empty();
  }

  /**
   * Waits for its end and collects it.
   *
   * @param limit how long to wait at most
   * @return how it ended, to one caller alone; empty when it has not
   * @throws IllegalStateException when it was collected before
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
        throw new CriuUnavailableException(
            "process " + process.pid() + " cannot be waited for: " + e.getMessage(),
            Failure.of("wait", process.pid()),
            e);
      }
      LockSupport.parkNanos(PAUSE_NANOS);
    }
    throw new IllegalStateException("process " + process.pid() + " was collected before");
  }
}
