package dev.gpuprocess;

import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.internal.engine.Resumption;
import dev.gpuprocess.internal.engine.StateHandle;
import dev.gpuprocess.internal.engine.Suspension;
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
   * @throws dev.gpuprocess.error.ProcessUnfitException with reason UNSUPPORTED_BY_DRIVER when it
   *     uses something that cannot be checkpointed, such as managed memory; it stays locked
   * @throws dev.gpuprocess.error.StaleStateException when the process is not locked any more
   */
  public CheckpointedProcess checkpoint() {
    return orPoisoned(
        () ->
            self.move(
                "checkpoint",
                ProcessState.LOCKED,
                ProcessState.CHECKPOINTED,
                Suspension::checkpoint,
                CheckpointedProcess::new));
  }

  /**
   * Lets the CUDA calls of the process go on ({@code cuCheckpointProcessUnlock}).
   *
   * @return the running process
   * @throws dev.gpuprocess.error.StaleStateException when the process is not locked any more
   */
  public RunningProcess unlock() {
    return orPoisoned(
        () ->
            self.bringBack(
                "unlock",
                ProcessState.LOCKED,
                ProcessState.RUNNING,
                Set.of(ProcessState.CHECKPOINTED, ProcessState.RUNNING),
                operation ->
                    Resumption.unlimited(self.tree().context, operation.members()).resumeFound(),
                RunningProcess::new));
  }

  /** Unlocks the process unless it was handed on; does nothing when the process has ended. */
  @Override
  public void close() {
    self.close(this::unlock);
  }
}
