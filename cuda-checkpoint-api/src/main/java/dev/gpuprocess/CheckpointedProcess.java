package dev.gpuprocess;

import dev.gpuprocess.cuda.GpuPair;
import dev.gpuprocess.cuda.GpuUuid;
import dev.gpuprocess.cuda.ProcessState;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;

/**
 * A process whose GPU memory is in host memory; the GPU is free of it. Closing it brings it back to
 * running, unless it was handed on by one of its verbs.
 */
public final class CheckpointedProcess extends LiveProcess implements GpuProcess, AutoCloseable {

  private static final DumpOptions LEAVE_RUNNING = DumpOptions.builder().leaveRunning(true).build();

  CheckpointedProcess(StateObject self) {
    super(self, ProcessState.CHECKPOINTED);
  }

  /**
   * Moves the memory of the process back to its GPU ({@code cuCheckpointProcessRestore}).
   *
   * @return the locked process
   * @see #restore(List)
   */
  public LockedProcess restore() {
    return restore(List.of());
  }

  /**
   * Moves the memory of the process to other GPUs of the same kind ({@code
   * cuCheckpointProcessRestore} with GPU pairs; driver 580 or later). Looks first whether there is
   * room: a restore that runs out of GPU memory loses the process.
   *
   * @param pairs where the memory of each GPU goes; lists every GPU of the machine, also those that
   *     stay; empty to go back where it was
   * @return the locked process
   * @throws dev.gpuprocess.error.InsufficientGpuMemoryException when a GPU has no room; nothing was
   *     touched
   * @throws dev.gpuprocess.error.UnknownGpuException when a pair names a GPU that the process does
   *     not use or that is not here; it stays checkpointed
   * @throws dev.gpuprocess.error.PoisonedProcessException when the GPU ran out of memory all the
   *     same
   * @throws dev.gpuprocess.error.StaleStateException when the process is no longer checkpointed
   */
  public LockedProcess restore(List<GpuPair> pairs) {
    return self.bringBack(
        "restore",
        ProcessState.CHECKPOINTED,
        (verb, steps) -> {
          Map<GpuUuid, Long> held = self.target().held();
          GpuRoom.require(self.target().checkpoints.inventory(), held, pairs, verb);
          long bytes = held.values().stream().mapToLong(Long::longValue).sum();
          steps.run("restore", bytes, () -> verb.restore(pairs));
        },
        LockedProcess::new);
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
   * Brings the process back to running as the options say: waits for GPU memory, makes an image
   * first, or goes to other GPUs.
   *
   * @param options how
   * @return the running process
   * @throws dev.gpuprocess.error.InsufficientGpuMemoryException when there was no room in time; the
   *     process stays checkpointed
   * @throws dev.gpuprocess.error.PoisonedProcessException when the GPU ran out of memory all the
   *     same; {@link PoisonedProcess#comeBackFrom} the insurance
   */
  public RunningProcess resume(ResumeOptions options) {
    options.insurance().ifPresent(directory -> dump(directory, LEAVE_RUNNING));
    Target target = self.target();
    GpuRoom.await(
        target.checkpoints.inventory(), target.held(), options.pairs(), options.waitForMemory());
    try (LockedProcess locked = restore(options.pairs())) {
      return locked.unlock();
    }
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
   * hangs: at the deadline of the options the process is let go, and what
   * the disk still writes is removed when it answers.
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
    Target target = self.target();
    return target.exclusively(
        "dump",
        Turn.Kind.MOVE,
        self.generation(),
        verb -> {
          verb.require(ProcessState.CHECKPOINTED);
          Steps steps = new Steps(target.checkpoints.listener(), pid(), self.steps());
          ProcessImage image = new Dump(verb, target, options, steps).into(directory);
          if (options.endsTree()) {
            int unused = target.advance();
            target.forget();
          } else {
            target.noteState(ProcessState.CHECKPOINTED);
          }
          return image;
        });
  }

  /** Resumes the process unless it was handed on; does nothing when the process has ended. */
  @Override
  public void close() {
    self.close(this::resume);
  }
}
