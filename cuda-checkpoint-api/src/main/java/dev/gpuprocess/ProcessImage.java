package dev.gpuprocess;

import dev.gpuprocess.error.PidTakenException;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.dump.DumpedImage;
import dev.gpuprocess.internal.engine.StepRecorder;
import dev.gpuprocess.internal.restore.ImageRestore;
import dev.gpuprocess.internal.restore.PlainRestore;
import dev.gpuprocess.options.Cancellation;
import dev.gpuprocess.options.RestoreOptions;
import dev.gpuprocess.options.ResumeOptions;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;

/**
 * A process with its descendants on disk: a directory with CRIU's image files and a manifest that
 * names the members ({@link dev.gpuprocess.image.Manifest#members()}), complete and durable. It can
 * be restored any number of times, but only once at a time, since its processes get the pids that
 * they had. An {@linkplain dev.gpuprocess.options.LaunchOptions.Builder#isolated isolated} one gets
 * any pids that are free, and can be restored many times at once. Immutable; may be shared between
 * threads. A restore has a deadline; methods that only read or remove files take as long as the
 * disk does.
 */
public final class ProcessImage extends SavedImage {

  private ProcessImage(EngineContext context, DumpedImage image) {
    super(context, image);
  }

  /**
   * Opens an image, with the drivers of this machine. Reads only the manifest; {@link #verify} and
   * {@link #restore} read everything.
   *
   * @param directory as given to {@link CheckpointedProcess#dump(Path)}
   * @return the image
   * @throws dev.gpuprocess.error.ImageException with reason MISSING when the directory has no
   *     image; with reason FORMAT when another version of this library wrote it; with reason
   *     MISMATCH when it is of an AMD process; use {@link AmdImage#open}; with reason CORRUPT when
   *     the manifest was altered; with reason NOT_TRUSTED when another user could have written it
   */
  public static ProcessImage open(Path directory) {
    return GpuCheckpoints.standard().open(directory);
  }

  static ProcessImage open(EngineContext context, Path directory) {
    return of(context, opened(context, directory));
  }

  static ProcessImage of(EngineContext context, DumpedImage made) {
    return new ProcessImage(context, made);
  }

  /**
   * Brings the process back with CRIU, under the pid that it had and still checkpointed: its GPU
   * memory is in host memory. The image stays.
   *
   * @return the checkpointed process
   * @throws dev.gpuprocess.error.ImageException with reason CORRUPT when a file is missing,
   *     truncated or altered; CRIU was not started
   * @throws dev.gpuprocess.error.MachineUnfitException with reason MACHINE_MISMATCH when this
   *     machine lacks what the image needs, with all differences; nothing was done
   * @throws PidTakenException when the pid belongs to another process
   * @throws dev.gpuprocess.error.CriuException when CRIU could not restore it; nothing of the
   *     process is left
   * @see #restore(RestoreOptions)
   */
  public CheckpointedProcess restore() {
    return restore(RestoreOptions.ofDefaults());
  }

  /**
   * Brings the process back with CRIU, under the pid that it had and still checkpointed: its GPU
   * memory is in host memory. The image stays.
   *
   * @param options how to restore; settings that must be those of the dump are taken from the
   *     manifest
   * @return the checkpointed process
   * @throws dev.gpuprocess.error.ImageException with reason CORRUPT when a file is missing,
   *     truncated or altered; CRIU was not started; with reason MISMATCH when it is not the image
   *     that the options expect; nothing was done; with reason JOB_FILE when something else is
   *     where the job file of driver 590 was, or the file cannot be put there; nothing was done
   * @throws dev.gpuprocess.error.MachineUnfitException with reason MACHINE_MISMATCH when this
   *     machine lacks what the image needs, with all differences; nothing was done
   * @throws PidTakenException when the pid belongs to another process
   * @throws dev.gpuprocess.error.CriuException when CRIU could not restore it; nothing of the
   *     process is left
   * @throws dev.gpuprocess.error.OperationInProgressException when another restore of it is under
   *     way on this machine
   * @throws dev.gpuprocess.error.OperationTimedOutException when the deadline passed
   * @throws dev.gpuprocess.error.OperationCancelledException when it was cancelled
   */
  public CheckpointedProcess restore(RestoreOptions options) {
    return new CheckpointedProcess(restoring().run(options));
  }

  ImageRestore restoring() {
    StepRecorder recorder = new StepRecorder(context.listener(), manifest().pid(), steps());
    return new ImageRestore(context, directory, null, recorder);
  }

  /**
   * Brings the process back to running: {@link #restore()} and {@link CheckpointedProcess#resume()}
   * as one operation.
   *
   * @return the running process
   * @see #resume(RestoreOptions, ResumeOptions)
   */
  public RunningProcess resume() {
    return resume(RestoreOptions.ofDefaults(), ResumeOptions.ofDefaults());
  }

  /**
   * Brings the process back to running: {@link #restore(RestoreOptions)} and {@link
   * CheckpointedProcess#resume(ResumeOptions)} as one operation. If the resume fails, or the
   * {@linkplain RestoreOptions.Builder#verify check} of the options does, the restored process is
   * ended, and the image stays: this can be called again.
   *
   * @param restore how to restore
   * @param resume the GPUs to go to, and how long to wait for memory
   * @return the running process
   * @throws dev.gpuprocess.error.FixAndRetryException with reason CHECK_FAILED when the process did
   *     not pass the check
   * @throws dev.gpuprocess.error.GpuCheckpointException as the two operations
   */
  public RunningProcess resume(RestoreOptions restore, ResumeOptions resume) {
    return new ImageResume(this, restore).run(resume);
  }

  /**
   * Brings the process back to running as a launched process of this JVM.
   *
   * @return the launched process
   * @see #launch(RestoreOptions, ResumeOptions)
   */
  public LaunchedProcess launch() {
    return launch(RestoreOptions.ofDefaults(), ResumeOptions.ofDefaults());
  }

  /**
   * Brings the process back to running, as {@link #resume(RestoreOptions, ResumeOptions)} does, as
   * a launched process of this JVM, whichever program started or dumped it. From here on it has the
   * guarantees of {@link GpuCheckpoints#launch}: it exits with this JVM, even if the JVM is killed;
   * its exit code is known; and a dump by this JVM is not its end. CRIU makes the root a child of
   * this JVM ({@code restore-sibling}), and its guard is started before CRIU lets it run.
   *
   * @param restore how to restore
   * @param resume the GPUs to go to, and how long to wait for memory
   * @return the launched process, which has no {@linkplain LaunchedProcess#output() output} to read
   *     and takes no requests for snapshots; if this JVM launched it before, it is the same one
   * @throws dev.gpuprocess.error.CriuException when its guard cannot be started, too; nothing of
   *     the process is left
   * @throws dev.gpuprocess.error.GpuCheckpointException as {@link #resume(RestoreOptions,
   *     ResumeOptions)}
   */
  public LaunchedProcess launch(RestoreOptions restore, ResumeOptions resume) {
    return new LaunchedProcess(
        new GpuCheckpoints(context), new ImageResume(this, restore).launch(resume));
  }

  /**
   * Returns the command by which CRIU alone restores this image. The process is checkpointed then,
   * as after {@link #restore()}, and {@link GpuProcess#inspect(long)} finds it. CRIU restores
   * nothing of what this library carries besides. Its statistics are written to the working
   * directory, as a restore refuses an image with another file in it.
   *
   * @return the program and its arguments; empty if CRIU alone cannot restore the image: with
   *     {@linkplain dev.gpuprocess.image.Manifest#memoryFiles() memory files}, of a process with a
   *     mount or pid namespace of its own, and of a process that leads its session and has a
   *     terminal open
   * @throws dev.gpuprocess.error.ImageException with reason CORRUPT when a file is missing,
   *     truncated or altered
   */
  public Optional<List<String>> criuCommand() {
    return PlainRestore.command(data(), directory.images(), describe());
  }

  @Override
  public ProcessImage copyTo(Path directory) {
    return of(context, copied(directory, null));
  }

  @Override
  public ProcessImage copyTo(Path directory, Cancellation cancellation) {
    return of(context, copied(directory, cancellation));
  }

  @Override
  public String toString() {
    return "image of process " + manifest().pid() + " in " + directory();
  }
}
