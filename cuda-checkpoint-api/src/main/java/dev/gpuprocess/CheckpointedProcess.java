package dev.gpuprocess;

import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.gpu.GpuPair;
import dev.gpuprocess.internal.dump.Dump;
import dev.gpuprocess.internal.engine.Resumption;
import dev.gpuprocess.internal.engine.RoomWait;
import dev.gpuprocess.internal.engine.StateHandle;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.ResumeOptions;
import dev.gpuprocess.options.Timeouts;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;
import java.util.function.Supplier;

/**
 * A process whose GPU memory is in host memory; the GPU is free of it. Closing it brings it back to
 * running, unless it was handed on by one of its verbs.
 */
public final class CheckpointedProcess extends LiveProcess implements GpuProcess, AutoCloseable {

  private static final DumpOptions LEAVE_RUNNING = DumpOptions.builder().leaveRunning(true).build();

  CheckpointedProcess(StateHandle self) {
    super(self, ProcessState.CHECKPOINTED);
  }

  /**
   * Moves the memory of the process back to its GPU ({@code cuCheckpointProcessRestore}).
   *
   * @return the locked process
   * @see #restore(ResumeOptions)
   */
  public LockedProcess restore() {
    return restore(ResumeOptions.ofDefaults());
  }

  /**
   * Moves the memory of the process to other GPUs of the same kind ({@code
   * cuCheckpointProcessRestore} with GPU pairs; driver 580 or later).
   *
   * @param pairs where the memory of each GPU goes; lists every GPU of the machine, also those that
   *     stay; empty to go back where it was
   * @return the locked process
   * @throws dev.gpuprocess.error.UnknownGpuException when a pair names a GPU that the process does
   *     not use or that is not here; it stays checkpointed
   * @see #restore(ResumeOptions)
   */
  public LockedProcess restore(List<GpuPair> pairs) {
    return restore(ResumeOptions.builder().pairs(pairs).build());
  }

  /**
   * Moves the memory of the process back to its GPU, or to others, as the options say ({@code
   * cuCheckpointProcessRestore}).
   *
   * <p>A restore that runs out of GPU memory loses the process, so its room is looked for before,
   * and reserved until the restore is done: of two restores that would fit one at a time, in
   * whatever JVMs with the same state directory, one is refused or waits. What other programs
   * allocate meanwhile cannot be kept off; a fallback image is for that.
   *
   * <p>What the process held is taken from the journal of its checkpoint. Where that is not known
   * (its checkpoint was made with another state directory, or NVML did not tell), there must be
   * room on every GPU that it may come back to for as much as it can have held by its host memory;
   * else the restore is refused until {@link ResumeOptions.Builder#needs} tells it. A GPU that NVML
   * should tell of and cannot read counts as full. Where there is no NVML at all ({@code
   * libnvidia-ml.so.1} cannot be loaded, as in containers that were given the compute libraries
   * alone) nothing is checked or reserved, and the caller has to keep room.
   *
   * @param options where to, how long to wait for memory, and an image to make first
   * @return the locked process
   * @throws dev.gpuprocess.error.InsufficientGpuMemoryException when there was no room in time; the
   *     process stays checkpointed
   * @throws dev.gpuprocess.error.UnknownHoldingsException when it is not known what the process
   *     held and there is not certainly room for it; the process stays checkpointed
   * @throws dev.gpuprocess.error.OperationCancelledException when the wait for memory was
   *     cancelled, or the thread interrupted, whose flag stays set; the process stays checkpointed
   * @throws dev.gpuprocess.error.UnknownGpuException when a pair names a GPU that the process does
   *     not use or that is not here; it stays checkpointed
   * @throws dev.gpuprocess.PoisonedProcessException when the GPU ran out of memory all the same;
   *     {@link PoisonedProcess#replaceWith} the fallback image
   * @throws dev.gpuprocess.error.StaleStateException when the process is no longer checkpointed
   */
  public LockedProcess restore(ResumeOptions options) {
    return whenThereIsRoom(
        options,
        () ->
            self.bringBack(
                "restore",
                ProcessState.CHECKPOINTED,
                ProcessState.LOCKED,
                Set.of(ProcessState.LOCKED),
                (members, found) -> {
                  if (found == ProcessState.CHECKPOINTED) {
                    new Resumption(members, options).restore();
                  }
                },
                LockedProcess::new));
  }

  private <T> T whenThereIsRoom(ResumeOptions options, Supplier<T> attempt) {
    RoomWait wait = new RoomWait(self, options);
    wait.requireNotCancelled();
    options.fallbackImage().ifPresent(directory -> insure(directory, options));
    return orPoisoned(() -> wait.retrying(attempt));
  }

  private void insure(Path directory, ResumeOptions options) {
    DumpOptions.Builder dump = LEAVE_RUNNING.toBuilder();
    options.cancellation().ifPresent(dump::cancellation);
    dump(directory, dump.build());
  }

  /**
   * Brings the process back to running: {@link #restore()} and {@link LockedProcess#unlock()} as
   * one step.
   *
   * @return the running process
   */
  public RunningProcess resume() {
    return resume(ResumeOptions.ofDefaults());
  }

  /**
   * Brings the process back to running as the options say: {@link #restore(ResumeOptions)}, which
   * says what it may throw, and {@link LockedProcess#unlock()} as one step.
   *
   * @param options how
   * @return the running process
   */
  public RunningProcess resume(ResumeOptions options) {
    return whenThereIsRoom(
        options,
        () ->
            self.bringBack(
                "resume",
                ProcessState.CHECKPOINTED,
                ProcessState.RUNNING,
                Set.of(ProcessState.LOCKED, ProcessState.RUNNING),
                (members, found) -> new Resumption(members, options).resume(found),
                RunningProcess::new));
  }

  /**
   * Writes the process to disk; it is gone then.
   *
   * @param directory where the image will be: it does not exist yet, or is empty; the directories
   *     above it are made if they are missing
   * @return the image
   * @see #dump(Path, DumpOptions)
   */
  public ProcessImage dump(Path directory) {
    return dump(directory, DumpOptions.ofDefaults());
  }

  /**
   * Writes the process and its children to disk with CRIU. The image is made beside its final
   * place, and it is complete, checksummed and synced to disk there before the process may die.
   * When this throws, the process is still checkpointed and nothing is left of the image, unless it
   * is an {@link dev.gpuprocess.error.ImageKeptException}: from the moment that the process may die
   * the image stays, until it is certain that the process lives. That holds also when the disk
   * hangs: at the deadline of the options the process is let go, and what the disk still writes is
   * removed when it answers.
   *
   * @param directory where the image will be: it does not exist yet, or is empty; the directories
   *     above it are made if they are missing
   * @param options how to dump
   * @return the image
   * @throws dev.gpuprocess.error.ImageDirectoryException when the directory cannot be used
   * @throws dev.gpuprocess.error.DiskFullException when the file system has no room
   * @throws dev.gpuprocess.error.OperationTimedOutException when the deadline passed
   * @throws dev.gpuprocess.error.CudaChildException when a child of the process holds a GPU
   * @throws dev.gpuprocess.error.CriuException when CRIU could not dump
   * @throws dev.gpuprocess.error.ImageKeptException when CRIU ended badly after the image was
   *     complete, and it could not be found out whether the process lives
   * @throws IllegalArgumentException with options that leave memory outside the image: pageServer,
   *     lazyPages, parentImages, autoDedup
   * @throws dev.gpuprocess.error.StaleStateException when the process is no longer checkpointed
   */
  public ProcessImage dump(Path directory, DumpOptions options) {
    return ProcessImage.of(self.target().context, Dump.of(self, directory, options));
  }

  /**
   * Resumes the process unless it was handed on; does nothing when the process has ended. Waits for
   * GPU memory as long as {@link Timeouts#memory()} says: what used the GPU meanwhile often gives
   * it back a moment later.
   *
   * @throws dev.gpuprocess.error.GpuCheckpointException as {@link #restore(ResumeOptions)}; the
   *     process stays checkpointed, and this can be called again
   */
  @Override
  public void close() {
    ResumeOptions patient =
        ResumeOptions.builder().waitForMemory(self.target().context.timeouts().memory()).build();
    self.close(() -> resume(patient));
  }
}
