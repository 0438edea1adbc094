package dev.gpuprocess;

import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.internal.engine.Resumption;
import dev.gpuprocess.internal.engine.StateHandle;
import dev.gpuprocess.internal.engine.Suspension;
import dev.gpuprocess.options.ResumeOptions;
import java.util.Set;

/**
 * A job whose CUDA calls wait. Closing it unlocks it, unless it was handed on by {@link
 * #checkpoint()} or {@link #unlock()}.
 */
public final class LockedJob extends LiveJob implements GpuJob, AutoCloseable {

  LockedJob(StateHandle self) {
    super(self, ProcessState.LOCKED);
  }

  /**
   * Moves the GPU memory of all members to host memory, side by side. The GPUs are free of them
   * then. When it fails for one member the others are restored, and all are locked as before.
   *
   * @return the checkpointed job
   * @throws dev.gpuprocess.error.UnsupportedByDriverException when a member uses something that
   *     cannot be checkpointed, such as managed memory
   * @throws PoisonedJobException when the way back of a checkpoint that failed ran out of GPU
   *     memory
   * @throws dev.gpuprocess.error.WrongStateException when the job was found half way: {@link
   *     #unlock()} it
   * @throws dev.gpuprocess.error.StaleStateException when a member is no longer locked
   */
  public CheckpointedJob checkpoint() {
    return orPoisoned(
        () ->
            self.move(
                "checkpoint",
                ProcessState.LOCKED,
                ProcessState.CHECKPOINTED,
                Suspension::checkpoint,
                CheckpointedJob::new));
  }

  /**
   * Lets the CUDA calls of all members go on. When it fails for one, the others go on, and it can
   * be called again.
   *
   * @return the running job
   * @throws dev.gpuprocess.error.StaleStateException when a member is no longer locked
   */
  public RunningJob unlock() {
    return orPoisoned(
        () ->
            self.bringBack(
                "unlock",
                ProcessState.LOCKED,
                ProcessState.RUNNING,
                Set.of(ProcessState.CHECKPOINTED, ProcessState.RUNNING),
                operation ->
                    new Resumption(operation.members(), ResumeOptions.ofDefaults()).resumeFound(),
                RunningJob::new));
  }

  /**
   * Unlocks the job unless it was handed on; does nothing when it has ended.
   *
   * @throws dev.gpuprocess.error.OperationInProgressException when another verb works on a member;
   *     nothing was touched, and this can be called again
   */
  @Override
  public void close() {
    self.close(this::unlock);
  }
}
