package dev.gpuprocess;

import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.internal.dump.RunningDump;
import dev.gpuprocess.internal.dump.SnapshotEnd;
import dev.gpuprocess.internal.engine.StateHandle;
import dev.gpuprocess.internal.time.Durations;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.SuspendOptions;
import dev.gpuprocess.options.Timeouts;
import java.nio.file.Path;
import java.time.Duration;
import java.time.InstantSource;

/** A process whose CUDA calls go through. */
public final class RunningProcess extends LiveProcess implements GpuProcess {

  RunningProcess(StateHandle self) {
    super(self, ProcessState.RUNNING);
  }

  /**
   * Locks with the default timeout of 10 seconds ({@link Timeouts#lock()}).
   *
   * @return the locked process
   * @see #lock(Duration)
   */
  public LockedProcess lock() {
    return lock(self.tree().context.timeouts().lock());
  }

  /**
   * Stops the CUDA calls of the process and waits until its GPU work has ended ({@code
   * cuCheckpointProcessLock}). Its CPU threads live on and wait at their next CUDA call.
   *
   * @param timeout how long to wait for GPU work that is under way, rounded up to milliseconds, at
   *     least one; with more than 24 days the driver waits without a timeout
   * @return the locked process
   * @throws dev.gpuprocess.error.LockTimeoutException when GPU work took longer; the process runs
   *     on
   * @throws dev.gpuprocess.error.OperationCancelledException when this thread was interrupted, as
   *     for {@link #suspend(SuspendOptions)}
   * @throws dev.gpuprocess.error.StaleStateException when the process is not running any more
   * @throws IllegalArgumentException when the timeout is negative
   */
  public LockedProcess lock(Duration timeout) {
    return self.lock(Durations.notNegative("timeout of a lock", timeout), LockedProcess::new);
  }

  /**
   * Frees the GPU: {@link #lock()} and {@link LockedProcess#checkpoint()} as one step. When the
   * checkpoint fails the process is unlocked again. No other verb comes between.
   *
   * @return the checkpointed process
   * @throws dev.gpuprocess.error.GpuCheckpointException as {@link #suspend(SuspendOptions)}
   */
  public CheckpointedProcess suspend() {
    return suspend(SuspendOptions.ofDefaults());
  }

  /**
   * Frees the GPU: {@link #lock(Duration)} and {@link LockedProcess#checkpoint()} as one step. When
   * the checkpoint fails the process is unlocked again. No other verb comes between.
   *
   * @param lockTimeout how long to wait for GPU work that is under way, as for a lock
   * @return the checkpointed process
   * @throws dev.gpuprocess.error.GpuCheckpointException as {@link #suspend(SuspendOptions)}
   * @throws IllegalArgumentException when the timeout is negative
   */
  public CheckpointedProcess suspend(Duration lockTimeout) {
    return suspend(SuspendOptions.builder().lockTimeout(lockTimeout).build());
  }

  /**
   * Frees the GPU as the options say: {@link #lock(Duration)} and {@link
   * LockedProcess#checkpoint()} as one step. When the checkpoint fails the process is unlocked
   * again. No other verb comes between.
   *
   * <p>A cancellation, an interrupt of this thread, and the deadline end it. While the driver waits
   * for GPU work, this returns within a tenth of a second or so. The driver cannot be interrupted:
   * it goes on until that work has ended or the lock's timeout has passed, and then the process is
   * unlocked without anyone asking. Other verbs are refused until then with {@link
   * dev.gpuprocess.error.OperationInProgressException}. A checkpoint that has begun is finished,
   * and undone before this returns. In either case the process is running in the end.
   *
   * @param options how long it may take, and what ends it early
   * @return the checkpointed process
   * @throws dev.gpuprocess.error.LockTimeoutException when GPU work took longer; the process runs
   *     on
   * @throws dev.gpuprocess.error.OperationCancelledException when it was cancelled, or this thread
   *     was interrupted (its interrupt flag stays set). Before it has begun nothing is touched
   * @throws dev.gpuprocess.error.OperationTimedOutException when the deadline passed during the
   *     checkpoint
   * @throws dev.gpuprocess.error.StaleStateException when the process is not running any more
   * @throws PoisonedProcessException when the way back of a checkpoint that failed or was cancelled
   *     ran out of GPU memory
   */
  public CheckpointedProcess suspend(SuspendOptions options) {
    return orPoisoned(() -> self.suspend(options, CheckpointedProcess::new));
  }

  /**
   * Writes the process to disk, after which it is gone.
   *
   * @param directory where the image will be; see {@link CheckpointedProcess#dump(Path)}
   * @return the image
   * @see #dump(Path, DumpOptions)
   */
  public ProcessImage dump(Path directory) {
    return dump(directory, DumpOptions.ofDefaults());
  }

  /**
   * Writes the process and its descendants to disk, after which they are gone: {@link #suspend()}
   * and {@link CheckpointedProcess#dump(Path, DumpOptions)} as one step. No other verb gets in
   * between. Whatever fails, the process is resumed, which waits for GPU memory for up to {@link
   * Timeouts#memory()}. All that can be checked without touching it is checked before it leaves its
   * GPU, as for a {@linkplain #snapshot(Path, DumpOptions) snapshot}.
   *
   * <p>The message of each exception ends with where the process is, and {@link
   * dev.gpuprocess.error.GpuCheckpointException#failure()} has its states before and after. After
   * an {@link dev.gpuprocess.error.ImageKeptException} the process is not resumed, as the complete
   * image may be all that is left of it.
   *
   * @param directory where the image will be; see {@link CheckpointedProcess#dump(Path)}
   * @param options how to dump
   * @return the image
   * @throws dev.gpuprocess.error.GpuCheckpointException as {@link #suspend(SuspendOptions)} and
   *     {@link CheckpointedProcess#dump(Path, DumpOptions)}; the process is running again, or the
   *     message says where it is
   * @throws IllegalArgumentException for options that leave the process running or stopped: {@link
   *     #snapshot(Path, DumpOptions)} leaves it running
   */
  public ProcessImage dump(Path directory, DumpOptions options) {
    return dump(directory, options, InstantSource.system());
  }

  /** The same with a clock that sets the time in the manifest. */
  ProcessImage dump(Path directory, DumpOptions options, InstantSource clock) {
    return orPoisoned(
        () ->
            ProcessImage.of(
                self.tree().context, RunningDump.dump(self, directory, options, clock)));
  }

  /**
   * Makes a backup of a process that goes on: suspend, dump leaving the process alive, resume.
   *
   * @param directory where the image will be; see {@link CheckpointedProcess#dump(Path)}
   * @return the image
   * @see #snapshot(Path, DumpOptions)
   */
  public ProcessImage snapshot(Path directory) {
    return snapshot(directory, DumpOptions.ofDefaults());
  }

  /**
   * Makes a backup of a process that goes on: suspend, dump leaving the process alive, resume, as
   * one step: no other verb comes between. Whatever fails, the process is resumed, which waits for
   * GPU memory for up to {@link Timeouts#memory()}. All that can be checked without touching it is
   * checked before it leaves its GPU: options, CRIU, the directory and its room, and what the tree
   * has open.
   *
   * <p>The process stands still no longer than it is needed: it runs again when CRIU has written
   * its files, and only then are they checksummed and synced. The GPU memory goes no further than
   * to {@linkplain GpuCheckpoints.Builder#hostMemory host memory} during the pause, and from there
   * to the disk. The image gets its name when all of it is on the disk; this returns then, and
   * {@link ProcessImage#snapshotTimes()} tells both times. A {@link
   * dev.gpuprocess.report.StepListener} sees the step {@code unlock} end when the process runs
   * again. From that moment on other verbs may be used on it, from any thread and JVM, and it may
   * end.
   *
   * <p>What fails after that costs the image alone: nothing is left of it, older images stay, and
   * the exception is of the type that is listed here, says that the process runs on, and has {@link
   * dev.gpuprocess.cuda.ProcessState#RUNNING} as its state afterwards. When the controller is
   * killed {@link GpuCheckpoints#recover()} removes what is left. When the driver cannot bring the
   * process back, or CRIU may have ended it, the image is made all the same before this throws, as
   * it may be all that is left of the process: without a deadline, and not cancellable.
   *
   * @param directory where the image will be; see {@link CheckpointedProcess#dump(Path)}
   * @param options how to dump; the process is left running in any case. The deadline is that of
   *     the dump, and begins again for what is done when the process runs again
   * @return the image
   * @throws dev.gpuprocess.error.ImageException with reason DISK_FULL when the file system is full
   * @throws dev.gpuprocess.error.ImageException when the image cannot be written
   * @throws dev.gpuprocess.error.OperationTimedOutException when the deadline passed
   * @throws dev.gpuprocess.error.OperationCancelledException when it was cancelled, or this thread
   *     was interrupted while the driver waited for GPU work. When that was so before it began,
   *     nothing is touched
   * @throws dev.gpuprocess.error.NoSuchProcessException when the process ended before or during the
   *     snapshot; its image stays if CRIU had written all of it
   * @throws dev.gpuprocess.error.ImageKeptException when CRIU failed after it had written the
   *     image, and it is unknown whether the process is still alive
   * @throws dev.gpuprocess.error.GpuCheckpointException as {@link #suspend(Duration)}, {@link
   *     CheckpointedProcess#dump(Path, DumpOptions)} and {@link CheckpointedProcess#resume()}
   */
  public ProcessImage snapshot(Path directory, DumpOptions options) {
    return snapshot(directory, options, InstantSource.system());
  }

  /** The same with a clock that sets the time in the manifest. */
  ProcessImage snapshot(Path directory, DumpOptions options, InstantSource clock) {
    return snapshot(directory, options, clock, new SnapshotEnd());
  }

  /** The same, which may become a dump while it is under way. */
  ProcessImage snapshot(Path directory, DumpOptions options, InstantSource clock, SnapshotEnd end) {
    return orPoisoned(
        () ->
            ProcessImage.of(
                self.tree().context, RunningDump.snapshot(self, directory, options, clock, end)));
  }

  /**
   * Checks whether the process could be dumped or snapshotted now, as far as that can be foreseen
   * while it runs: CRIU, the options, the directory and its room, and what the tree has open.
   * Nothing is changed. A scheduler that checks a job right after its start learns of an obstacle
   * while there is time to start the job in another way.
   *
   * @param directory where the image would be
   * @param options how to dump
   * @throws dev.gpuprocess.error.CriuException with reason UNSUPPORTED_RESOURCE when the process
   *     has something that CRIU cannot dump
   * @throws dev.gpuprocess.error.OperationInProgressException when another verb works on the
   *     process; nothing was checked
   * @throws dev.gpuprocess.error.GpuCheckpointException as {@link #snapshot(Path, DumpOptions)}
   *     before it takes the process off its GPU
   */
  public void checkDump(Path directory, DumpOptions options) {
    RunningDump.requirePossible(self, directory, options);
  }

  /**
   * Makes snapshots of the process from now on, at an interval, and removes those that the plan
   * does not keep. It goes on until it is closed or the process has ended, whatever fails: the
   * process runs on, and the plan's listener is notified. Other verbs may be used on the process:
   * while it is suspended, no snapshots are made.
   *
   * <p>All that can be checked before the process leaves its GPU (the directory and its room, CRIU,
   * the options, what the tree has open) is checked now, and before each snapshot.
   *
   * @param plan how often, where to, and what stays; its directory is made if it does not exist
   * @return what ends the snapshots
   * @throws dev.gpuprocess.error.FixAndRetryException with reason WRONG_STATE when the process is
   *     not running now
   * @throws dev.gpuprocess.error.ImageException with reason DIRECTORY when the directory cannot be
   *     used
   * @throws dev.gpuprocess.error.ImageException with reason DISK_FULL when there is no room for an
   *     image
   * @throws dev.gpuprocess.error.CriuException with reason UNSUPPORTED_RESOURCE when the process
   *     has something that CRIU cannot dump
   * @throws dev.gpuprocess.error.GpuCheckpointException as {@link #snapshot(Path, DumpOptions)}
   *     before it takes the process off its GPU
   * @throws IllegalArgumentException when the plan's store is of settings with another image key
   */
  public RepeatedSnapshots repeatSnapshots(SnapshotPlan plan) {
    return RepeatedSnapshots.begin(new SnapshotSubject(self.tree().context, identity()), plan);
  }
}
