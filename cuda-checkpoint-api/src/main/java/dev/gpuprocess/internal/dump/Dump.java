package dev.gpuprocess.internal.dump;

import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.internal.attributes.TreeAttributes;
import dev.gpuprocess.internal.call.BoundedCall;
import dev.gpuprocess.internal.call.BoundedDiskTask;
import dev.gpuprocess.internal.call.Stop;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.engine.StateHandle;
import dev.gpuprocess.internal.engine.StepRecorder;
import dev.gpuprocess.internal.engine.TrackedTree;
import dev.gpuprocess.internal.engine.TreeOperation;
import dev.gpuprocess.internal.engine.VerbOutcome;
import dev.gpuprocess.internal.extras.ManifestOptions;
import dev.gpuprocess.internal.extras.TreeMounts;
import dev.gpuprocess.internal.image.ImageDirectory;
import dev.gpuprocess.internal.image.ImagePlace;
import dev.gpuprocess.internal.image.ImageTarget;
import dev.gpuprocess.internal.image.LogDirectory;
import dev.gpuprocess.internal.image.StagedImage;
import dev.gpuprocess.internal.launch.LaunchedRoot;
import dev.gpuprocess.internal.manifest.ManifestData;
import dev.gpuprocess.internal.state.ImageEntry;
import dev.gpuprocess.internal.state.ProcessLock;
import dev.gpuprocess.internal.time.WorkLimit;
import dev.gpuprocess.options.Cancellation;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.spi.CriuDriver;
import java.io.IOException;
import java.nio.file.Path;
import java.time.InstantSource;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicReference;
import org.jspecify.annotations.Nullable;

/**
 * Dumps a checkpointed process, or one whose GPU state CRIU's plugin moves, into an image. This
 * class is the first phase: it checks everything that can be checked and stages the image, which
 * {@link ImageWriting} writes and seals.
 */
public final class Dump {

  final TreeOperation operation;
  final TrackedTree tree;
  final ProcessIdentity root;
  final EngineContext context;
  final DumpOptions options;
  final Optional<TreeMounts> mounts;
  final StepRecorder steps;
  final SaveFileSteps saveFiles;
  final boolean isSnapshot;
  final InstantSource clock;

  /** Found while the process ran, or null until they are. */
  private @Nullable TreeAttributes attributes;

  private Dump(
      TreeOperation operation,
      DumpOptions options,
      StepRecorder steps,
      boolean isSnapshot,
      @Nullable TreeAttributes attributes,
      InstantSource clock) {
    this.attributes = attributes;
    this.operation = operation;
    this.tree = operation.tree();
    this.root = tree.root;
    this.context = tree.context;
    DumpOptions all = context.criuOptions().of(options);
    this.mounts = TreeMounts.of(root.pid(), all);
    this.options = mounts.map(found -> found.with(all)).orElse(all);
    this.steps = steps;
    this.isSnapshot = isSnapshot;
    this.clock = clock;
    this.saveFiles = new SaveFileSteps(operation, options);
  }

  /** Dumps a checkpointed process as one verb. The clock sets the time in the manifest. */
  public static DumpedImage of(
      StateHandle self, Path directory, DumpOptions options, InstantSource clock) {
    Stop.requireNotCancelled(
        options.cancellation(), "dump", self.tree().name(), self.tree().root.pid());
    self.tree().members().forEach(each -> BoundedCall.requireCapacity(each.identity, "dump"));
    return self.tree()
        .exclusively(
            "dump",
            ProcessLock.Kind.MOVE,
            self.generation(),
            operation -> {
              StepRecorder steps = self.measured();
              operation.measuredBy(steps);
              operation.require(ProcessState.CHECKPOINTED);
              try {
                ImageDirectory image = sealed(operation, options, steps, directory, null, clock);
                steps.rethrow();
                return new DumpedImage(image, steps.taken(), null);
              } catch (RuntimeException e) {
                VerbOutcome.addMembers(operation, e);
                throw e;
              }
            });
  }

  /**
   * Dumps a checkpointed process for a verb that holds its locks; the image is durable.
   *
   * @param attributes those that were found while the process ran; null to find them now
   */
  static ImageDirectory sealed(
      TreeOperation operation,
      DumpOptions options,
      StepRecorder steps,
      Path directory,
      @Nullable TreeAttributes attributes,
      InstantSource clock) {
    Dump dump = new Dump(operation, options, steps, false, attributes, clock);
    ImageDirectory image = dump.sealed(directory);
    if (options.endsTree()) {
      int unused = dump.tree.advance();
      dump.tree.forget();
    } else {
      dump.tree.members().forEach(each -> each.setState(ProcessState.CHECKPOINTED));
    }
    return image;
  }

  private ImageDirectory sealed(Path directory) {
    // The exit of a dumped process is not the end of a launched process.
    try (LaunchedRoot.DumpInProgress dump = LaunchedRoot.dumping(root)) {
      ImageDirectory image = run(directory).published();
      if (options.endsTree()) {
        dump.done();
      }
      return image;
    }
  }

  /**
   * Dumps a checkpointed process for a snapshot: the process may run when this returns, and the
   * image is neither durable nor published.
   *
   * @param attributes those that were found while the process ran
   * @param clock gives the time of the image
   */
  static ImageWriting written(
      TreeOperation operation,
      DumpOptions options,
      StepRecorder steps,
      Path directory,
      TreeAttributes attributes,
      InstantSource clock) {
    return new Dump(operation, options, steps, true, attributes, clock).run(directory);
  }

  private ImageWriting run(Path directory) {
    AtomicReference<@Nullable ImageWriting> done = new AtomicReference<>();
    operation.atCriu(() -> done.set(prepared(directory)));
    return Objects.requireNonNull(done.get());
  }

  private ImageWriting prepared(Path directory) {
    int pid = root.pid();
    // The deadline covers the checks as well.
    BoundedDiskTask disk =
        new BoundedDiskTask("dump", pid, directory.toAbsolutePath(), options.deadline());
    disk.requireCapacity();
    WorkLimit limit = WorkLimit.scanning("dump", pid, options.deadline());
    TreeCheck.requireInTree(operation);
    TreeCheck children = new TreeCheck(operation, limit, options.releaseInheritedGpu());
    List<ProcessIdentity> holders = holders(children, limit);
    CriuDriver criu = context.criu();
    DumpOptions inTime = options.toBuilder().deadline(limit.remaining()).build();
    List<ProcessIdentity> members = tree.members().stream().map(each -> each.identity).toList();
    DumpCheck check =
        new DumpCheck(context, root, members, directory, inTime, false, tree.plugin());
    check.requireSupported(criu, operation.failure(null, stateOnFailure()));
    if (attributes == null) {
      attributes = check.requireAttributes(true);
    }
    ManifestData.Options kept = ManifestOptions.of(options, root, mounts, tree.plugin());
    Path place = disk.run("find place", () -> place(directory), found -> {});
    children.release(holders, steps);
    LogDirectory log = LogDirectory.planned("dump");
    tree.note("dump", place, log.path());
    try {
      long bytes = check.bytes();
      StagedImage image = disk.run("stage", () -> stage(place, bytes, log), Dump::close);
      return new ImageWriting(this, criu, image, kept, disk).run(limit);
    } catch (RuntimeException | Error e) {
      operation.noteStates();
      throw e;
    }
  }

  /** Returns the attributes of the tree that CRIU does not restore. */
  TreeAttributes attributes() {
    return Objects.requireNonNull(attributes);
  }

  /** Returns the children from which device files are to be taken. */
  private List<ProcessIdentity> holders(TreeCheck children, WorkLimit limit) {
    if (tree.plugin() == null) {
      return children.require();
    }
    AmdTree.require(root, "dump", limit::check);
    return List.of();
  }

  /** Returns whether the tree has a pid namespace of its own. */
  boolean isIsolated() {
    return mounts.map(TreeMounts::isolated).orElse(false);
  }

  boolean isCancelled() {
    return options.cancellation().map(Cancellation::isCancelled).orElse(false);
  }

  /** Returns the state in which a dump that fails leaves the process. */
  private ProcessState stateOnFailure() {
    return tree.plugin() == null ? ProcessState.CHECKPOINTED : ProcessState.RUNNING;
  }

  private Path place(Path directory) {
    try {
      return ImagePlace.of(directory);
    } catch (IOException e) {
      throw ImageTarget.failed(
          operation.failure(null, stateOnFailure()),
          ImageException.Reason.DIRECTORY,
          "process %s was not dumped, because no image can be made at %s (%s)"
              .formatted(root.pid(), directory, ImagePlace.reason(e)),
          e);
    }
  }

  /**
   * Writes a journal entry before the first directory is made, so that a recovery finds it. The
   * entries of the members do not suffice, because a failed dump overwrites them.
   */
  private StagedImage stage(Path place, long bytes, LogDirectory log) {
    ImageEntry entry = tree.noteImage(place, log.path());
    try {
      StagedImage image = StagedImage.create(place, root, bytes, context.imageKey(), log);
      image.removesWhenClosed(entry);
      return image;
    } catch (RuntimeException | Error e) {
      entry.close();
      throw e;
    }
  }

  private static void close(@Nullable StagedImage image) {
    if (image != null) {
      image.close();
    }
  }
}
