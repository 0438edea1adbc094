package dev.gpuprocess;

import dev.gpuprocess.dumped.DumpedTree;
import dev.gpuprocess.error.ImageMismatchException;
import dev.gpuprocess.error.PidTakenException;
import dev.gpuprocess.image.Manifest;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.dump.DumpedImage;
import dev.gpuprocess.internal.dump.ImageRestore;
import dev.gpuprocess.internal.dump.OlderImages;
import dev.gpuprocess.internal.engine.StepRecorder;
import dev.gpuprocess.internal.store.ImageDirectory;
import dev.gpuprocess.options.RestoreOptions;
import dev.gpuprocess.progress.SnapshotTimes;
import dev.gpuprocess.progress.Step;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * A process on disk: a directory with CRIU's image files and a manifest, complete and durable. It
 * can be restored any number of times, but only once at a time, since the process gets the pid that
 * it had. Immutable; may be shared between threads. A restore has a deadline; methods that only
 * read or remove files take as long as the disk does.
 */
public final class ProcessImage {

  private final EngineContext context;
  private final ImageDirectory directory;
  private final List<Step> steps;
  private final @Nullable SnapshotTimes times;

  ProcessImage(EngineContext context, DumpedImage image) {
    this.context = context;
    this.directory = image.directory();
    this.steps = List.copyOf(image.steps());
    this.times = image.times();
  }

  /**
   * Opens an image, with the drivers of this machine. Reads only the manifest; {@link #verify} and
   * {@link #restore} read everything.
   *
   * @param directory as given to {@link CheckpointedProcess#dump(Path)}
   * @return the image
   * @throws dev.gpuprocess.error.ImageMissingException when there is no image
   * @throws dev.gpuprocess.error.ImageFormatException when another version of this library wrote it
   * @throws dev.gpuprocess.error.ImageCorruptException when the manifest was altered
   * @throws dev.gpuprocess.error.ImageNotTrustedException when somebody else could have written it
   */
  public static ProcessImage open(Path directory) {
    return GpuCheckpoints.standard().open(directory);
  }

  static ProcessImage open(EngineContext context, Path directory) {
    return of(
        context,
        new DumpedImage(ImageDirectory.open(directory, context.imageKey()), List.of(), null));
  }

  static ProcessImage of(EngineContext context, DumpedImage made) {
    return new ProcessImage(context, made);
  }

  /**
   * Where the image is.
   *
   * @return its directory
   */
  public Path directory() {
    return directory.path();
  }

  /**
   * What the image holds.
   *
   * @return the manifest
   */
  public Manifest manifest() {
    return directory.manifest();
  }

  /**
   * The steps that made this image.
   *
   * @return oldest first; empty for an image that was opened
   */
  public List<Step> steps() {
    return steps;
  }

  /**
   * How long the process stood still for this image, and how long the image took.
   *
   * @return empty unless a {@linkplain RunningProcess#snapshot(Path, DumpOptions) snapshot} has
   *     just made it
   */
  public Optional<SnapshotTimes> snapshotTimes() {
    return Optional.ofNullable(times);
  }

  /**
   * Reads every file and compares it with the manifest. An interrupt does not stop this; the thread
   * stays interrupted.
   *
   * @throws dev.gpuprocess.error.ImageCorruptException when a file is missing, truncated or altered
   * @throws dev.gpuprocess.error.ImageNotTrustedException when somebody else could have written it
   */
  public void verify() {
    directory.verify();
  }

  /**
   * Removes older images of the same process (the same pid and command line) that lie beside this
   * one, such as the snapshots before it. This image is verified first. Symbolic links, incomplete
   * images, images that somebody else could have written, and images that are being read or
   * restored are not touched. Keep the images of different jobs in different directories. {@link
   * ImageStore#prune} keeps more than the newest, and does not read all that stay.
   *
   * @param keep how many images stay, this one included; at least 1
   * @return what was removed, oldest first
   * @throws dev.gpuprocess.error.ImageException when this image does not verify, and nothing was
   *     removed; or when an image cannot be removed
   * @throws dev.gpuprocess.error.OperationInProgressException when an image of the process is being
   *     restored, or another verb works on the process
   * @throws IllegalArgumentException when {@code keep} is less than 1
   */
  public List<Path> removeOlder(int keep) {
    return OlderImages.remove(context, directory, keep);
  }

  /**
   * Reads what the image holds: the process tree, command lines, threads, memory by kind, open
   * files and sockets. Of the memory only the command lines are read. Nothing is compared with the
   * manifest; {@link #verify} does that.
   *
   * @return the tree as it was dumped
   * @throws dev.gpuprocess.error.ImageCorruptException when a file is missing, truncated or altered
   */
  public DumpedTree describe() {
    return context.criu().describe(directory.images());
  }

  /**
   * Brings the process back with CRIU, under the pid that it had and still checkpointed: its GPU
   * memory is in host memory. The image stays.
   *
   * @return the checkpointed process
   * @throws dev.gpuprocess.error.ImageCorruptException when a file is missing, truncated or
   *     altered; CRIU was not started
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
   * @throws dev.gpuprocess.error.ImageCorruptException when a file is missing, truncated or
   *     altered; CRIU was not started
   * @throws ImageMismatchException when it is not the image that the options expect; nothing was
   *     done
   * @throws PidTakenException when the pid belongs to another process
   * @throws dev.gpuprocess.error.CriuException when CRIU could not restore it; nothing of the
   *     process is left
   * @throws dev.gpuprocess.error.OperationInProgressException when another restore of it is under
   *     way on this machine
   * @throws dev.gpuprocess.error.OperationTimedOutException when the deadline passed
   * @throws dev.gpuprocess.error.OperationCancelledException when it was cancelled
   */
  public CheckpointedProcess restore(RestoreOptions options) {
    StepRecorder recorder = new StepRecorder(context.listener(), manifest().pid(), steps);
    return new CheckpointedProcess(new ImageRestore(context, directory, recorder).run(options));
  }

  @Override
  public String toString() {
    return "image of process " + manifest().pid() + " in " + directory();
  }
}
