package dev.gpuprocess;

import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.internal.dump.Dump;
import dev.gpuprocess.internal.engine.Resumption;
import dev.gpuprocess.internal.engine.RoomWait;
import dev.gpuprocess.internal.engine.StateHandle;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.ResumeOptions;
import dev.gpuprocess.options.Timeouts;
import java.nio.file.Path;
import java.util.Set;
import java.util.function.Supplier;

/**
 * A job whose members' GPU memory is in host memory, and which holds nothing on a GPU. Closing it
 * brings it back to running, unless one of its verbs has moved it on.
 */
public final class CheckpointedJob extends LiveJob implements GpuJob, AutoCloseable {

  private static final DumpOptions LEAVE_RUNNING = DumpOptions.builder().leaveRunning(true).build();

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
   * member the others stay where they are, and it can be called again. None is unlocked. A job that
   * was found half way, with members that run, can only be {@linkplain #resume() resumed}.
   *
   * @param options the GPUs to go to, for all members; how long to wait for memory; what all
   *     members together need, where the library does not know; an image to make first
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
        new RoomWait(self.job(), options),
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

  private <T> T whenThereIsRoom(RoomWait wait, ResumeOptions options, Supplier<T> attempt) {
    wait.requireNotCancelled();
    options.fallbackImage().ifPresent(directory -> makeImage(directory, options));
    return orPoisoned(() -> wait.retrying(attempt));
  }

  private void makeImage(Path directory, ResumeOptions options) {
    DumpOptions.Builder dump = LEAVE_RUNNING.toBuilder();
    options.cancellation().ifPresent(dump::cancellation);
    dump(directory, dump.build());
    self.job().members().forEach(each -> each.hasFallbackImage(directory));
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
   * @param options the GPUs to go to, how long to wait for memory, and an image to make first
   * @return the running job
   */
  public RunningJob resume(ResumeOptions options) {
    return resume(options, new RoomWait(self.job(), options));
  }

  private RunningJob resume(ResumeOptions options, RoomWait wait) {
    return whenThereIsRoom(
        wait,
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
   * Writes the job to disk, after which it is gone.
   *
   * @param directory where the image will be: it must not exist yet, or be empty; missing
   *     directories above it are created
   * @return the image
   * @see #dump(Path, DumpOptions)
   */
  public JobImage dump(Path directory) {
    return dump(directory, DumpOptions.ofDefaults());
  }

  /**
   * Writes the tree of the root to disk with CRIU as one image, after which it is gone, unless the
   * options say otherwise. The image is made as {@link CheckpointedProcess#dump(Path, DumpOptions)}
   * says of one process; the GPU memory of each member is in files of its own. When this throws,
   * all members are still checkpointed.
   *
   * @param directory where the image will be: it must not exist yet, or be empty; missing
   *     directories above it are created
   * @param options how to dump
   * @return the image
   * @throws dev.gpuprocess.error.MemberOutsideTreeException when a member has left the tree, as its
   *     parent ended; nothing was touched
   * @throws dev.gpuprocess.error.NoSuchProcessException when the root has ended
   * @throws dev.gpuprocess.error.CudaChildException when a process that is no member holds a GPU
   * @throws dev.gpuprocess.error.WrongStateException when the job was found half way: {@link
   *     #resume()} it
   * @throws dev.gpuprocess.error.StaleStateException when a member is no longer checkpointed
   * @throws dev.gpuprocess.error.GpuCheckpointException as {@link CheckpointedProcess#dump(Path,
   *     DumpOptions)}
   */
  public JobImage dump(Path directory, DumpOptions options) {
    return JobImage.of(self.job().context, Dump.of(self, directory, options));
  }

  /**
   * Resumes the job unless one of its verbs has moved it on; does nothing when it has ended. Waits
   * for GPU memory for up to {@link Timeouts#memory()}. An interrupt does not shorten this; the
   * thread stays interrupted.
   *
   * @throws dev.gpuprocess.error.OperationInProgressException when another verb works on a member;
   *     nothing was touched, and this can be called again
   * @throws dev.gpuprocess.error.GpuCheckpointException as {@link #restore(ResumeOptions)}, and
   *     this can be called again
   */
  @Override
  public void close() {
    self.close(
        () -> {
          ResumeOptions options = RoomWait.asWhenClosing(self.job().context.timeouts());
          RunningJob unused =
              resume(options, new RoomWait(self.job(), options).despiteInterrupts());
        });
  }
}
