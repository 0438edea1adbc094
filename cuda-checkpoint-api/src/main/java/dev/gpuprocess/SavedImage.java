package dev.gpuprocess;

import dev.gpuprocess.error.MachineDifference;
import dev.gpuprocess.image.DumpedTree;
import dev.gpuprocess.image.Manifest;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.dump.DumpedImage;
import dev.gpuprocess.internal.engine.StepRecorder;
import dev.gpuprocess.internal.image.ImageCopy;
import dev.gpuprocess.internal.image.ImageDirectory;
import dev.gpuprocess.internal.machine.MachineComparison;
import dev.gpuprocess.internal.manifest.ManifestData;
import dev.gpuprocess.internal.time.WorkLimit;
import dev.gpuprocess.options.Cancellation;
import dev.gpuprocess.options.RestoreOptions;
import dev.gpuprocess.report.SnapshotTimes;
import dev.gpuprocess.report.Step;
import dev.gpuprocess.spi.GpuPlugin;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * An image of a process tree: a directory with CRIU's files, the GPU memory and a manifest.
 * Immutable; may be used from any thread.
 */
public abstract sealed class SavedImage permits ProcessImage, AmdImage {

  final EngineContext context;
  final ImageDirectory directory;
  private final List<Step> steps;
  private final @Nullable SnapshotTimes times;

  SavedImage(EngineContext context, DumpedImage image) {
    this.context = context;
    this.directory = image.directory();
    this.steps = List.copyOf(image.steps());
    this.times = image.times();
  }

  /** Reads the manifest of an image that the CUDA driver restores. */
  static DumpedImage opened(EngineContext context, Path directory) {
    return opened(context, directory, null);
  }

  /** Reads the manifest of an image that this plugin of CRIU restores, if it is not null. */
  static DumpedImage opened(EngineContext context, Path directory, @Nullable GpuPlugin plugin) {
    ImageDirectory image = ImageDirectory.open(directory, context.imageKey());
    image.requirePlugin(plugin, "open");
    return new DumpedImage(image, List.of(), null);
  }

  /**
   * Where the image is.
   *
   * @return its directory
   */
  public final Path directory() {
    return directory.path();
  }

  /**
   * What the image holds.
   *
   * @return the manifest
   */
  public final Manifest manifest() {
    return directory.manifest().summary();
  }

  /** What the library itself needs of the manifest. */
  final ManifestData data() {
    return directory.manifest();
  }

  /**
   * The steps that made this image.
   *
   * @return oldest first; empty for an image that was opened
   */
  public final List<Step> steps() {
    return steps;
  }

  /**
   * How long its processes stood still for this image, and how long the image took.
   *
   * @return empty unless a {@linkplain RunningProcess#snapshot(Path, DumpOptions) snapshot} has
   *     just made it
   */
  public final Optional<SnapshotTimes> snapshotTimes() {
    return Optional.ofNullable(times);
  }

  /**
   * Reads every file and compares it with the manifest. An interrupt does not stop this; the thread
   * stays interrupted.
   *
   * @throws dev.gpuprocess.error.ImageException with reason CORRUPT when a file is missing,
   *     truncated or altered; with reason NOT_TRUSTED when another user could have written it
   */
  public final void verify() {
    directory.verify();
  }

  /**
   * The same as {@link #verify()}, which another thread can end early.
   *
   * @param cancellation ends it early, from another thread
   * @throws dev.gpuprocess.error.ImageException as {@link #verify()}
   * @throws dev.gpuprocess.error.OperationCancelledException when it was cancelled
   */
  public final void verify(Cancellation cancellation) {
    directory.verify(cancellation::isCancelled);
  }

  /**
   * Copies the image into another directory, such as one that another host can read. Every file is
   * compared with the manifest while it is copied. The copy gets its name in one atomic step, when
   * it is complete and on disk.
   *
   * <p>If this fails because files cannot be read or do not match, or this JVM ends, a hidden
   * directory stays beside the copy's place. The next copy of this image into the same parent
   * directory continues it: what is there and matches the manifest is not copied again. The next
   * image of any other kind that is written there removes it. A full disk and a cancellation leave
   * nothing.
   *
   * <p>The step {@code copy} is reported to the listener, with the bytes that were copied. An
   * interrupt does not stop this; the thread stays interrupted.
   *
   * @param directory where the copy will be; must not exist, or be empty; missing directories above
   *     it are created
   * @param cancellation ends it early, from another thread
   * @return the copy
   * @throws dev.gpuprocess.error.ImageException with reason CORRUPT when a file is missing,
   *     truncated or altered, or cannot be read; with reason NOT_TRUSTED when another user could
   *     have written it; with reason MISSING when the image is gone; with reason DIRECTORY when the
   *     directory cannot be used, or something is there; an image never replaces anything
   * @throws dev.gpuprocess.error.ImageException with reason DISK_FULL when the file system has too
   *     little space
   * @throws dev.gpuprocess.error.OperationCancelledException when it was cancelled
   */
  public abstract SavedImage copyTo(Path directory, Cancellation cancellation);

  /**
   * The same as {@link #copyTo(Path, Cancellation)}, which nothing cancels.
   *
   * @param directory where the copy will be
   * @return the copy
   */
  public abstract SavedImage copyTo(Path directory);

  final DumpedImage copied(Path target, @Nullable Cancellation cancellation) {
    return copied(context, directory, target, "copy", cancellation);
  }

  static DumpedImage copied(
      EngineContext context,
      ImageDirectory image,
      Path target,
      String step,
      @Nullable Cancellation cancellation) {
    int pid = image.manifest().pid();
    StepRecorder steps = new StepRecorder(context.listener(), pid, List.of());
    WorkLimit limit =
        WorkLimit.readingAtLength(
            step, pid, () -> cancellation != null && cancellation.isCancelled());
    ImageCopy.Result made =
        steps.run(
            step,
            () -> ImageCopy.make(image, target, context.imageKey(), limit),
            ImageCopy.Result::copied,
            ImageCopy.Result::note);
    steps.rethrow();
    return new DumpedImage(made.image(), steps.taken(), null);
  }

  /**
   * Reads what the image holds: the process tree, command lines, threads, memory by kind, open
   * files and sockets. Of the memory only the command lines are read. Nothing is compared with the
   * manifest; {@link #verify} does that.
   *
   * @return the dumped tree
   * @throws dev.gpuprocess.error.ImageException with reason CORRUPT when a file is missing,
   *     truncated or altered
   */
  public final DumpedTree describe() {
    return context.criu().describe(directory.images());
  }

  /**
   * Compares this machine with the one that the image was made on: CPU, driver, GPUs, the programs
   * and libraries that its processes run code of, kernel and CRIU. What the image does not say,
   * such as one of an earlier version, is not compared. A restore does the same first. Touches
   * nothing, and reads of the files only what tells whether they are the same.
   *
   * @return all differences, those first that {@linkplain MachineDifference#prevents() prevent} a
   *     restore; empty when nothing differs
   * @throws dev.gpuprocess.error.MachineUnfitException with reason NO_CRIU when there is no CRIU
   * @throws dev.gpuprocess.error.OperationTimedOutException when a file system does not answer
   */
  public final List<MachineDifference> differences() {
    return MachineComparison.differences(context, data(), RestoreOptions.ofDefaults());
  }
}
