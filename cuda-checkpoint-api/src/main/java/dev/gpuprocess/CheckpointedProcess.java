package dev.gpuprocess;

import dev.gpuprocess.cuda.GpuMap;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.internal.dump.Dump;
import dev.gpuprocess.internal.engine.MemoryWait;
import dev.gpuprocess.internal.engine.RestoreLimit;
import dev.gpuprocess.internal.engine.Resumption;
import dev.gpuprocess.internal.engine.StateHandle;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.ResumeOptions;
import dev.gpuprocess.options.Timeouts;
import java.nio.file.Path;
import java.time.InstantSource;
import java.util.Set;
import java.util.function.Supplier;

/**
 * A process whose GPU memory is in host memory, and which holds nothing on a GPU. Closing it brings
 * it back to running, unless one of its verbs has moved it on.
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
   * @param map where the memory of each GPU goes
   * @return the locked process
   * @throws dev.gpuprocess.error.FixAndRetryException with reason UNKNOWN_GPU when it names a GPU
   *     that the process does not use or that this machine does not have; the process stays
   *     checkpointed
   * @see #restore(ResumeOptions)
   */
  public LockedProcess restore(GpuMap map) {
    return restore(ResumeOptions.builder().gpus(map).build());
  }

  /**
   * Moves the memory of the process back to its GPU, or to others, as the options say ({@code
   * cuCheckpointProcessRestore}).
   *
   * <p>A restore that runs out of GPU memory loses the process. So the memory it needs is checked
   * first, and reserved until the restore is done: of two restores that would fit only one at a
   * time, in any JVMs with the same state directory, one is refused or waits. Programs that do not
   * use this library can still take the memory at that moment; a fallback image covers that case.
   *
   * <p>What the process held is taken from the journal entry of its checkpoint. If that is not
   * known (the checkpoint was made with another state directory, or NVML did not report it), the
   * most that the process can have held is estimated from its host memory, and that much must be
   * free on every GPU that it may come back to; otherwise the restore is refused until {@link
   * ResumeOptions.Builder#needs} supplies the numbers. A GPU that NVML lists but cannot read counts
   * as full. Where there is no NVML at all ({@code libnvidia-ml.so.1} cannot be loaded, as in
   * containers that were given only the compute libraries) nothing is checked or reserved, and the
   * caller has to see to it that the memory is free.
   *
   * @param options the GPUs to go to, how long to wait for memory, and an image to make first
   * @return the locked process
   * @throws dev.gpuprocess.error.InsufficientGpuMemoryException when the memory was not free in
   *     time; the process stays checkpointed; with reason UNKNOWN_NEED when it is not known what
   *     the process held, and the free memory may not be enough for it; the process stays
   *     checkpointed
   * @throws dev.gpuprocess.error.OperationCancelledException when the wait for memory was
   *     cancelled, or the thread was interrupted (its interrupt flag stays set); the process stays
   *     checkpointed. When it was cancelled and the driver did not finish its restore within {@link
   *     Timeouts#call()}, the process is brought back to running when the restore returns
   * @throws dev.gpuprocess.error.OperationTimedOutException when the driver did not finish its
   *     restore within the deadline of the options and {@link Timeouts#transfer()}; the process is
   *     brought back to running when the restore returns
   * @throws dev.gpuprocess.error.FixAndRetryException with reason UNKNOWN_GPU when it names a GPU
   *     that the process does not use or that this machine does not have; the process stays
   *     checkpointed
   * @throws dev.gpuprocess.PoisonedProcessException when the GPU ran out of memory all the same:
   *     {@link PoisonedProcess#replaceWith} the fallback image
   * @throws dev.gpuprocess.error.StaleStateException when the process is not checkpointed any more
   */
  public LockedProcess restore(ResumeOptions options) {
    RestoreLimit limit = limit(options);
    return whenThereIsRoom(
        new MemoryWait(self.tree(), options),
        options,
        limit,
        () ->
            self.bringBack(
                "restore",
                ProcessState.CHECKPOINTED,
                ProcessState.LOCKED,
                Set.of(ProcessState.LOCKED),
                operation -> new Resumption(operation.members(), options, limit).restoreFound(),
                LockedProcess::new));
  }

  private RestoreLimit limit(ResumeOptions options) {
    return new RestoreLimit(options, self.tree().context.timeouts());
  }

  private <T> T whenThereIsRoom(
      MemoryWait wait, ResumeOptions options, RestoreLimit limit, Supplier<T> attempt) {
    wait.requireNotCancelled();
    options.fallbackImage().ifPresent(directory -> makeImage(directory, options, limit));
    return orPoisoned(() -> wait.retrying(attempt));
  }

  private void makeImage(Path directory, ResumeOptions options, RestoreLimit limit) {
    DumpOptions.Builder dump = LEAVE_RUNNING.toBuilder().deadline(limit.remaining());
    options.cancellation().ifPresent(dump::cancellation);
    dump(directory, dump.build());
    self.tree().members().forEach(each -> each.setFallbackImage(directory));
  }

  /**
   * Brings the process back to running: {@link #restore()} and {@link LockedProcess#unlock()} as
   * one operation.
   *
   * @return the running process
   * @see #restore(ResumeOptions)
   */
  public RunningProcess resume() {
    return resume(ResumeOptions.ofDefaults());
  }

  /**
   * Brings the process back to running as the options say: {@link #restore(ResumeOptions)}, which
   * lists the exceptions, and {@link LockedProcess#unlock()} as one operation.
   *
   * @param options the GPUs to go to, how long to wait for memory, and an image to make first
   * @return the running process
   */
  public RunningProcess resume(ResumeOptions options) {
    return resume(options, new MemoryWait(self.tree(), options));
  }

  private RunningProcess resume(ResumeOptions options, MemoryWait wait) {
    RestoreLimit limit = limit(options);
    return whenThereIsRoom(
        wait,
        options,
        limit,
        () ->
            self.bringBack(
                "resume",
                ProcessState.CHECKPOINTED,
                ProcessState.RUNNING,
                Set.of(ProcessState.LOCKED, ProcessState.RUNNING),
                operation -> new Resumption(operation.members(), options, limit).resumeFound(),
                RunningProcess::new));
  }

  /**
   * Writes the process to disk, after which it is gone.
   *
   * @param directory where the image will be: it must not exist yet, or be empty; missing
   *     directories above it are created
   * @return the image
   * @see #dump(Path, DumpOptions)
   */
  public ProcessImage dump(Path directory) {
    return dump(directory, DumpOptions.ofDefaults());
  }

  /**
   * Writes the process and its descendants to disk with CRIU, after which they are gone, unless the
   * options say otherwise. The image is made beside its final place; it is complete, checksummed
   * and synced to disk in that place before the process may die.
   *
   * <p>When this throws, the process is still checkpointed and nothing is left of the image, unless
   * it throws {@link dev.gpuprocess.error.ImageKeptException}: from the moment at which the process
   * may die, the image stays until it is certain that the process lives. The same holds when the
   * disk hangs: at the deadline of the options the process is released, and what the disk still
   * writes is removed when it answers.
   *
   * @param directory where the image will be: it must not exist yet, or be empty; missing
   *     directories above it are created
   * @param options how to dump
   * @return the image
   * @throws dev.gpuprocess.error.ImageException with reason DIRECTORY when the directory cannot be
   *     used
   * @throws dev.gpuprocess.error.ImageException with reason DISK_FULL when the file system is full
   * @throws dev.gpuprocess.error.OperationTimedOutException when the deadline passed
   * @throws dev.gpuprocess.error.FixAndRetryException with reason CUDA_CHILD when a child of the
   *     process holds a GPU; with {@link DumpOptions.Builder#releaseInheritedGpu}, when that is
   *     more than it inherited by fork or cannot be taken from it
   * @throws dev.gpuprocess.error.CriuException when CRIU could not dump
   * @throws dev.gpuprocess.error.ImageKeptException when CRIU failed after the image was complete,
   *     and it cannot be determined whether the process lives
   * @throws dev.gpuprocess.error.StaleStateException when the process is not checkpointed any more
   */
  public ProcessImage dump(Path directory, DumpOptions options) {
    return dump(directory, options, InstantSource.system());
  }

  /** The same with a clock that sets the time in the manifest. */
  ProcessImage dump(Path directory, DumpOptions options, InstantSource clock) {
    return ProcessImage.of(self.tree().context, Dump.of(self, directory, options, clock));
  }

  /**
   * Resumes the process unless one of its verbs has moved it on; does nothing when the process has
   * ended. Waits for GPU memory for up to {@link Timeouts#memory()}, since the program that used
   * the GPU often frees it only a moment later. An interrupt does not shorten this; the thread
   * stays interrupted.
   *
   * @throws dev.gpuprocess.error.GpuCheckpointException as {@link #restore(ResumeOptions)}; the
   *     process stays checkpointed, and this can be called again
   */
  @Override
  public void close() {
    self.close(
        () -> {
          ResumeOptions options = MemoryWait.asWhenClosing(self.tree().context.timeouts());
          RunningProcess unused =
              resume(options, new MemoryWait(self.tree(), options).despiteInterrupts());
        });
  }
}
