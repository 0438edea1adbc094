package dev.gpuprocess;

import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.internal.dump.RunningDump;
import dev.gpuprocess.internal.engine.StateHandle;
import dev.gpuprocess.internal.time.Durations;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.SuspendOptions;
import dev.gpuprocess.options.Timeouts;
import java.nio.file.Path;
import java.time.Duration;
import java.time.InstantSource;

/** A job whose CUDA calls go through. */
public final class RunningJob extends LiveJob implements GpuJob {

  RunningJob(StateHandle self) {
    super(self, ProcessState.RUNNING);
  }

  /**
   * Locks with the default timeout of 10 seconds ({@link Timeouts#lock()}).
   *
   * @return the locked job
   * @see #lock(Duration)
   */
  public LockedJob lock() {
    return lock(self.job().context.timeouts().lock());
  }

  /**
   * Stops the CUDA calls of all members at the same time and waits until their GPU work has ended.
   * Then the tree is looked at again, and CUDA processes that came meanwhile are locked too. When
   * one member cannot be locked all are let go, and it is tried again until the timeout: ranks that
   * wait for each other may be caught at a moment at which they cannot come to rest.
   *
   * @param timeout how long all of that may take
   * @return the locked job
   * @throws dev.gpuprocess.error.LockTimeoutException when GPU work took longer; all members run on
   * @throws dev.gpuprocess.error.ProcessStoppedException when a process of the tree is stopped that
   *     may use CUDA
   * @throws dev.gpuprocess.error.StaleStateException when a member is no longer running
   * @throws IllegalArgumentException when the timeout is negative
   */
  public LockedJob lock(Duration timeout) {
    return self.lock(Durations.notNegative("timeout of a lock", timeout), LockedJob::new);
  }

  /**
   * Frees the GPUs: {@link #lock()} and {@link LockedJob#checkpoint()} as one step. When it fails
   * for one member all run again. Nobody gets in between.
   *
   * @return the checkpointed job
   */
  public CheckpointedJob suspend() {
    return suspend(SuspendOptions.ofDefaults());
  }

  /**
   * Frees the GPUs: {@link #lock(Duration)} and {@link LockedJob#checkpoint()} as one step. When it
   * fails for one member all run again. Nobody gets in between.
   *
   * @param lockTimeout how long the lock may take
   * @return the checkpointed job
   * @throws PoisonedJobException when the way back of a checkpoint that failed ran out of GPU
   *     memory
   * @throws IllegalArgumentException when the timeout is negative
   */
  public CheckpointedJob suspend(Duration lockTimeout) {
    return suspend(SuspendOptions.builder().lockTimeout(lockTimeout).build());
  }

  /**
   * Frees the GPUs as the options say, as {@link RunningProcess#suspend(SuspendOptions)} says of
   * one process. When it fails for one member, or is ended early, all members are running again.
   *
   * @param options how long it may take, and what ends it early
   * @return the checkpointed job
   * @throws dev.gpuprocess.error.OperationCancelledException when it was cancelled, or this thread
   *     was interrupted (its interrupt flag stays set). Before it has begun nothing is touched
   * @throws dev.gpuprocess.error.OperationTimedOutException when the deadline passed during the
   *     checkpoint
   * @throws dev.gpuprocess.error.GpuCheckpointException as {@link #lock(Duration)} and {@link
   *     LockedJob#checkpoint()}
   */
  public CheckpointedJob suspend(SuspendOptions options) {
    return orPoisoned(() -> self.suspend(options, CheckpointedJob::new));
  }

  /**
   * Writes the job to disk, after which it is gone.
   *
   * @param directory where the image will be; see {@link CheckpointedJob#dump(Path)}
   * @return the image
   * @see #dump(Path, DumpOptions)
   */
  public JobImage dump(Path directory) {
    return dump(directory, DumpOptions.ofDefaults());
  }

  /**
   * Writes the job to disk, after which it is gone: {@link #suspend()} and {@link
   * CheckpointedJob#dump(Path, DumpOptions)} as one step, as {@link RunningProcess#dump(Path,
   * DumpOptions)} says of one process. Whatever fails, all members are resumed.
   *
   * @param directory where the image will be; see {@link CheckpointedJob#dump(Path)}
   * @param options how to dump
   * @return the image
   * @throws dev.gpuprocess.error.GpuCheckpointException as {@link #suspend(SuspendOptions)} and
   *     {@link CheckpointedJob#dump(Path, DumpOptions)}; the job is running again, or the exception
   *     says where its members were left
   * @throws IllegalArgumentException for options that leave the job running or stopped: {@link
   *     #snapshot(Path, DumpOptions)} leaves it running
   */
  public JobImage dump(Path directory, DumpOptions options) {
    return orPoisoned(
        () -> JobImage.of(self.job().context, RunningDump.dump(self, directory, options)));
  }

  /**
   * Makes a backup of a job that goes on: suspend, dump leaving it alive, resume.
   *
   * @param directory where the image will be; see {@link CheckpointedJob#dump(Path)}
   * @return the image
   * @see #snapshot(Path, DumpOptions)
   */
  public JobImage snapshot(Path directory) {
    return snapshot(directory, DumpOptions.ofDefaults());
  }

  /**
   * Makes a backup of a job that goes on, as {@link RunningProcess#snapshot(Path, DumpOptions)}
   * says of one process: suspend, dump leaving it alive, resume, as one step. All that can be
   * checked without touching the job is checked before it leaves its GPUs. What was on the GPUs
   * goes no further than to host memory during the pause, where there is room for all of it ({@link
   * GpuCheckpoints.Builder#hostMemory}), so that the job runs again before it is on the disk.
   *
   * @param directory where the image will be; see {@link CheckpointedJob#dump(Path)}
   * @param options how to dump; the job is left running whatever they say
   * @return the image
   * @throws dev.gpuprocess.error.MemberOutsideTreeException when a member has left the tree, as its
   *     parent ended; nothing was touched
   * @throws dev.gpuprocess.error.GpuCheckpointException as {@link #suspend(Duration)}, {@link
   *     CheckpointedJob#dump(Path, DumpOptions)} and {@link CheckpointedJob#resume()}; the job
   *     runs, or the exception says where its members were left
   */
  public JobImage snapshot(Path directory, DumpOptions options) {
    return snapshot(directory, options, InstantSource.system());
  }

  /** The same of an image whose manifest says when it was made by another clock. */
  JobImage snapshot(Path directory, DumpOptions options, InstantSource clock) {
    return orPoisoned(
        () ->
            JobImage.of(self.job().context, RunningDump.snapshot(self, directory, options, clock)));
  }

  /**
   * Makes snapshots of the job from now on, as {@link RunningProcess#repeatSnapshots} says of one
   * process: at an interval, whatever fails, until it is closed or the root has ended. Each is of
   * the members of that moment. While one of them is suspended, by whatever controller, no
   * snapshots are made.
   *
   * @param plan how often, where to, and what stays; its directory is made if it does not exist
   * @return what ends the snapshots; a job that comes back from an image needs new ones
   * @throws dev.gpuprocess.error.WrongStateException when a member is not running now
   * @throws dev.gpuprocess.error.ImageDirectoryException when the directory cannot be used
   * @throws dev.gpuprocess.error.DiskFullException when there is no room for an image
   * @throws dev.gpuprocess.error.UnsupportedResourceException when the tree has something that CRIU
   *     cannot dump
   * @throws dev.gpuprocess.error.GpuCheckpointException as {@link #snapshot(Path, DumpOptions)}
   *     before it takes the job off its GPUs
   * @throws IllegalArgumentException when the plan's store is of settings with another image key
   */
  public RepeatedSnapshots repeatSnapshots(SnapshotPlan plan) {
    return RepeatedSnapshots.begin(new SnapshotSubject(self.job().context, root(), true), plan);
  }
}
