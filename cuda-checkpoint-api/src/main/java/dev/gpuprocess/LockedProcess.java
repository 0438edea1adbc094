package dev.gpuprocess;

import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.internal.engine.DriverOperation;
import dev.gpuprocess.internal.engine.StateHandle;
import dev.gpuprocess.internal.engine.StepRecorder;
import dev.gpuprocess.internal.engine.TrackedProcess;
import dev.gpuprocess.internal.lock.ProcessLock;
import dev.gpuprocess.internal.room.Holdings;
import dev.gpuprocess.options.ResumeOptions;
import java.util.Set;

/**
 * A process whose CUDA calls wait. Closing it unlocks it, unless it was handed on by {@link
 * #checkpoint()} or {@link #unlock()}.
 */
public final class LockedProcess extends LiveProcess implements GpuProcess, AutoCloseable {

  LockedProcess(StateHandle self) {
    super(self, ProcessState.LOCKED);
  }

  /**
   * Moves the GPU memory of the process to host memory ({@code cuCheckpointProcessCheckpoint}). The
   * GPU is free of it then; its host memory grows by what it held.
   *
   * @return the checkpointed process
   * @throws dev.gpuprocess.error.UnsupportedByDriverException when it uses something that cannot be
   *     checkpointed, such as managed memory; it stays locked
   * @throws dev.gpuprocess.error.StaleStateException when the process is no longer locked
   */
  public CheckpointedProcess checkpoint() {
    return self.move(
        "checkpoint",
        ProcessState.LOCKED,
        (verb, steps) -> checkpoint(self.target(), verb, steps),
        CheckpointedProcess::new);
  }

  /** What it holds is written down before: nobody could tell afterwards. */
  static void checkpoint(TrackedProcess target, DriverOperation verb, StepRecorder steps) {
    Holdings held = Holdings.of(target.pid(), target.checkpoints.inventory().read());
    target.nowHolds(held);
    target.note("checkpoint", ProcessLock.Kind.MOVE);
    steps.run("checkpoint", held.bytes(), verb::checkpoint);
  }

  /**
   * Lets the CUDA calls of the process go on ({@code cuCheckpointProcessUnlock}).
   *
   * @return the running process
   * @throws dev.gpuprocess.error.StaleStateException when the process is no longer locked
   */
  public RunningProcess unlock() {
    return self.bringBack(
        "unlock",
        ProcessState.LOCKED,
        Set.of(ProcessState.CHECKPOINTED, ProcessState.RUNNING),
        (verb, steps, found) ->
            CheckpointedProcess.bringBack(
                self.target(), verb, steps, found, ResumeOptions.ofDefaults()),
        RunningProcess::new);
  }

  /** Unlocks the process unless it was handed on; does nothing when the process has ended. */
  @Override
  public void close() {
    self.close(this::unlock);
  }
}
