package dev.gpuprocess;

import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.internal.engine.Resumption;
import dev.gpuprocess.internal.engine.RoomWait;
import dev.gpuprocess.internal.engine.StateHandle;
import dev.gpuprocess.options.ResumeOptions;
import dev.gpuprocess.options.Timeouts;
import java.util.Set;
import java.util.function.Supplier;

/**
 * A job whose members' GPU memory is in host memory, and which holds nothing on a GPU. Closing it
 * brings it back to running, unless one of its verbs has moved it on.
 */
public final class CheckpointedJob extends LiveJob implements GpuJob, AutoCloseable {

  CheckpointedJob(StateHandle self) {
    super(self, ProcessState.CHECKPOINTED);
  }

  /**
   * Moves the memory of all members back to their GPUs.
   *
   * @return the locked job
   * @see #restore(ResumeOptions)
   */
  public LockedJob restore() {
    return restore(ResumeOptions.ofDefaults());
  }

  /**
   * Moves the memory of all members back to their GPUs, or to others, as the options say. The GPU
   * memory that all of them need is checked and reserved in one step, for all or for none, as
   * {@link CheckpointedProcess#restore(ResumeOptions)} says of one process. When it fails for a
   * member the others stay where they are, and it can be called again. None is unlocked.
   *
   * @param options the GPUs to go to, for all members; how long to wait for memory; what all
   *     members together need, where the library does not know
   * @return the locked job
   * @throws dev.gpuprocess.error.InsufficientGpuMemoryException when the memory was not free in
   *     time; all stay checkpointed
   * @throws dev.gpuprocess.error.UnknownHoldingsException when it is not known what a member held,
   *     and the free memory may not be enough for it; all stay checkpointed
   * @throws dev.gpuprocess.error.OperationCancelledException when the wait for memory was
   *     cancelled, or the thread was interrupted; all stay checkpointed
   * @throws PoisonedJobException when the GPU ran out of memory all the same
   * @throws dev.gpuprocess.error.StaleStateException when a member is no longer checkpointed
   */
  public LockedJob restore(ResumeOptions options) {
    return whenThereIsRoom(
        options,
        () ->
            self.bringBack(
                "restore",
                ProcessState.CHECKPOINTED,
                ProcessState.LOCKED,
                Set.of(ProcessState.LOCKED),
                operation -> new Resumption(operation.members(), options).restoreFound(),
                LockedJob::new));
  }

  private <T> T whenThereIsRoom(ResumeOptions options, Supplier<T> attempt) {
    if (options.fallbackImage().isPresent()) {
      throw new IllegalArgumentException("a job has no fallback image yet");
    }
    RoomWait wait = new RoomWait(self.job(), options);
    wait.requireNotCancelled();
    return orPoisoned(() -> wait.retrying(attempt));
  }

  /**
   * Brings the job back to running: {@link #restore()} and {@link LockedJob#unlock()} as one
   * operation.
   *
   * @return the running job
   * @see #resume(ResumeOptions)
   */
  public RunningJob resume() {
    return resume(ResumeOptions.ofDefaults());
  }

  /**
   * Brings the job back to running as the options say: {@link #restore(ResumeOptions)}, which lists
   * the exceptions, and {@link LockedJob#unlock()} as one operation. Also mends a job that was
   * found half way: all members that need it are restored before any is unlocked.
   *
   * @param options the GPUs to go to, how long to wait for memory
   * @return the running job
   */
  public RunningJob resume(ResumeOptions options) {
    return whenThereIsRoom(
        options,
        () ->
            self.bringBack(
                "resume",
                ProcessState.CHECKPOINTED,
                ProcessState.RUNNING,
                Set.of(ProcessState.LOCKED, ProcessState.RUNNING),
                operation -> new Resumption(operation.members(), options).resumeFound(),
                RunningJob::new));
  }

  /**
   * Resumes the job unless one of its verbs has moved it on; does nothing when it has ended. Waits
   * for GPU memory for up to {@link Timeouts#memory()}.
   *
   * @throws dev.gpuprocess.error.OperationInProgressException when another verb works on a member;
   *     nothing was touched, and this can be called again
   * @throws dev.gpuprocess.error.GpuCheckpointException as {@link #restore(ResumeOptions)}, and
   *     this can be called again
   */
  @Override
  public void close() {
    self.close(() -> resume(RoomWait.asWhenClosing(self.job().context.timeouts())));
  }
}
