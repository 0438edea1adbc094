package dev.gpuprocess;

import dev.gpuprocess.cuda.ProcessState;
import java.nio.file.Path;
import java.time.Duration;

/** A process whose CUDA calls go through. */
public final class RunningProcess extends LiveProcess implements GpuProcess {

  RunningProcess(StateObject self) {
    super(self, ProcessState.RUNNING);
  }

  /**
   * Locks with the default timeout of 10 seconds ({@link Timeouts#lock()}).
   *
   * @return the locked process
   * @see #lock(Duration)
   */
  public LockedProcess lock() {
    return lock(self.target().checkpoints.timeouts().lock());
  }

  /**
   * Stops the CUDA calls of the process and waits until its GPU work has ended ({@code
   * cuCheckpointProcessLock}). Its CPU threads live on and wait at their next CUDA call.
   *
   * @param timeout how long to wait for GPU work that is under way, in whole milliseconds, at least
   *     one
   * @return the locked process
   * @throws dev.gpuprocess.error.LockTimeoutException when GPU work took longer; the process runs
   *     on
   * @throws dev.gpuprocess.error.StaleStateException when the process is no longer running
   * @throws IllegalArgumentException when the timeout is negative or longer than 24 days
   */
  public LockedProcess lock(Duration timeout) {
    if (timeout.isNegative() || timeout.compareTo(Duration.ofMillis(Integer.MAX_VALUE)) > 0) {
      throw new IllegalArgumentException(
          "a lock's timeout must be between 0 and 24 days, not " + timeout);
    }
    return self.move(
        "lock",
        ProcessState.RUNNING,
        (verb, steps) -> steps.run("lock", 0, () -> verb.lock(timeout)),
        LockedProcess::new);
  }

  /**
   * Frees the GPU: {@link #lock()} and {@link LockedProcess#checkpoint()} as one step. When the
   * checkpoint fails the process is unlocked again.
   *
   * @return the checkpointed process
   */
  public CheckpointedProcess suspend() {
    return suspend(self.target().checkpoints.timeouts().lock());
  }

  /**
   * Frees the GPU: {@link #lock(Duration)} and {@link LockedProcess#checkpoint()} as one step. When
   * the checkpoint fails the process is unlocked again.
   *
   * @param lockTimeout how long to wait for GPU work that is under way
   * @return the checkpointed process
   */
  public CheckpointedProcess suspend(Duration lockTimeout) {
    try (LockedProcess locked = lock(lockTimeout)) {
      return locked.checkpoint();
    }
  }

  /**
   * Makes a backup of a job that goes on: suspend, dump leaving the process alive, resume.
   *
   * @param directory where the image will be; see {@link CheckpointedProcess#dump(Path)}
   * @return the image
   * @see #snapshot(Path, DumpOptions)
   */
  public ProcessImage snapshot(Path directory) {
    return snapshot(directory, DumpOptions.ofDefaults());
  }

  /**
   * Makes a backup of a job that goes on: suspend, dump leaving the process alive, resume. Whatever
   * fails, the process is resumed. All that can be checked without touching it is checked before it
   * leaves its GPU: options, CRIU, the directory and its room, and what the tree has open.
   *
   * @param directory where the image will be; see {@link CheckpointedProcess#dump(Path)}
   * @param options how to dump; the process is left running whatever they say
   * @return the image
   */
  public ProcessImage snapshot(Path directory, DumpOptions options) {
    DumpOptions leaving = options.toBuilder().leaveStopped(false).leaveRunning(true).build();
    Target target = self.target();
    new DumpCheck(target.checkpoints, target.identity, directory, leaving, true).require();
    try (CheckpointedProcess suspended = suspend()) {
      return suspended.dump(directory, leaving);
    }
  }
}
