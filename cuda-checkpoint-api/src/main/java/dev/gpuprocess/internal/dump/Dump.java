package dev.gpuprocess.internal.dump;

import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.CriuReport;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.Fate;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.error.ImageKeptException;
import dev.gpuprocess.image.DumpReport;
import dev.gpuprocess.image.ImageFile;
import dev.gpuprocess.image.ImageMachine;
import dev.gpuprocess.image.Manifest;
import dev.gpuprocess.internal.call.BoundedCall;
import dev.gpuprocess.internal.call.BoundedDiskTask;
import dev.gpuprocess.internal.call.Stop;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.engine.StateHandle;
import dev.gpuprocess.internal.engine.StepRecorder;
import dev.gpuprocess.internal.engine.TrackedTree;
import dev.gpuprocess.internal.engine.TreeOperation;
import dev.gpuprocess.internal.engine.VerbOutcome;
import dev.gpuprocess.internal.image.ImageDirectory;
import dev.gpuprocess.internal.image.ImagePlace;
import dev.gpuprocess.internal.image.LogDirectory;
import dev.gpuprocess.internal.image.StagedImage;
import dev.gpuprocess.internal.launch.LaunchedRoot;
import dev.gpuprocess.internal.launch.LaunchedRoot.DumpInProgress;
import dev.gpuprocess.internal.machine.MachineSurvey;
import dev.gpuprocess.internal.pool.HostMemoryPool;
import dev.gpuprocess.internal.state.ImageEntry;
import dev.gpuprocess.internal.state.ProcessLock;
import dev.gpuprocess.internal.time.WorkLimit;
import dev.gpuprocess.options.Cancellation;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.process.ProcessIdentity;
import dev.gpuprocess.spi.CriuDriver;
import dev.gpuprocess.spi.DumpListener;
import dev.gpuprocess.spi.DumpRequest;
import dev.gpuprocess.spi.GpuPlugin;
import java.io.IOException;
import java.nio.file.Path;
import java.time.InstantSource;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Dumps a checkpointed process, or one whose GPU state CRIU's plugin moves, into an image. The
 * image is durable before CRIU may kill the process; if that fails, the image is removed and the
 * process stays.
 */
public final class Dump {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  private final TreeOperation operation;
  private final TrackedTree job;
  private final ProcessIdentity root;
  private final EngineContext context;
  private final DumpOptions options;
  private final Optional<Isolation> isolation;
  private final StepRecorder steps;
  private final SaveFileSteps saveFiles;
  private final boolean isSnapshot;
  private final InstantSource clock;
  private @Nullable ImageDirectory published;
  private @Nullable Function<List<ImageFile>, Manifest> draft;
  private @Nullable WrittenImage written;
  private @Nullable RuntimeException notSealed;

  private Dump(
      TreeOperation operation,
      DumpOptions options,
      StepRecorder steps,
      boolean isSnapshot,
      InstantSource clock) {
    this.operation = operation;
    this.job = operation.tree();
    this.root = job.root;
    this.context = job.context;
    this.isolation = Isolation.of(root.pid());
    this.options = isolation.map(found -> found.with(options)).orElse(options);
    this.steps = steps;
    this.isSnapshot = isSnapshot;
    this.clock = clock;
    this.saveFiles = new SaveFileSteps(operation, options);
  }

  /** Dumps a checkpointed process as one verb. */
  public static DumpedImage of(StateHandle self, Path directory, DumpOptions options) {
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
                ImageDirectory image =
                    new Dump(operation, options, steps, false, InstantSource.system())
                        .alone(directory);
                steps.rethrow();
                return new DumpedImage(image, steps.taken(), null);
              } catch (RuntimeException e) {
                VerbOutcome.addMembers(operation, e);
                throw e;
              }
            });
  }

  /** Dumps a checkpointed process for a verb that has its locks; it is gone then. */
  static ImageDirectory toItsEnd(
      TreeOperation operation,
      DumpOptions options,
      StepRecorder steps,
      Path directory,
      InstantSource clock) {
    return new Dump(operation, options, steps, false, clock).alone(directory);
  }

  private ImageDirectory alone(Path directory) {
    ImageDirectory image = intoItsEnd(directory);
    if (options.endsTree()) {
      int unused = job.advance();
      job.forget();
    } else {
      job.members().forEach(each -> each.setState(ProcessState.CHECKPOINTED));
    }
    return image;
  }

  /**
   * Has an image written of a checkpointed process, which then needs it no longer. The image is
   * neither durable nor published.
   *
   * @param clock tells when the image is made
   */
  static WrittenImage written(
      TreeOperation operation,
      DumpOptions options,
      StepRecorder steps,
      Path directory,
      InstantSource clock) {
    Dump dump = new Dump(operation, options, steps, true, clock);
    operation.atCriu(() -> dump.run(directory));
    return Objects.requireNonNull(dump.written);
  }

  /** A process that was launched here has not ended because it is on disk. */
  private ImageDirectory intoItsEnd(Path directory) {
    try (DumpInProgress dump = LaunchedRoot.dumping(root)) {
      ImageDirectory image = into(directory);
      if (options.endsTree()) {
        dump.done();
      }
      return image;
    }
  }

  private ImageDirectory into(Path directory) {
    operation.atCriu(() -> run(directory));
    return requirePublished();
  }

  private void run(Path directory) {
    int pid = root.pid();
    // The deadline covers the checks as well.
    BoundedDiskTask disk =
        new BoundedDiskTask("dump", pid, directory.toAbsolutePath(), options.deadline());
    disk.requireCapacity();
    WorkLimit limit = WorkLimit.scanning("dump", pid, options.deadline());
    TreeCheck.requireInTree(operation);
    TreeCheck tree = new TreeCheck(operation, limit, options.releaseInheritedGpu());
    List<ProcessIdentity> holders = holders(tree, limit);
    CriuDriver criu = context.criu();
    DumpOptions inTime = options.toBuilder().deadline(limit.remaining()).build();
    List<ProcessIdentity> members = job.members().stream().map(each -> each.identity).toList();
    GpuPlugin plugin = job.plugin();
    DumpCheck check =
        plugin == null
            ? new DumpCheck(context, root, members, directory, inTime, false)
            : new DumpCheck(context, root, directory, inTime, plugin);
    check.requireSupported(criu, operation.failure(null, stays()));
    Manifest.Options kept = ManifestOptions.of(options, root, isolation, plugin);
    Path place = disk.run("find place", () -> place(directory), found -> {});
    new ReleaseStep(operation, steps, limit, tree).run(holders);
    LogDirectory log = LogDirectory.planned("dump");
    job.note("dump", place, log.path());
    try {
      long bytes = check.bytes();
      StagedImage image = disk.run("stage", () -> stage(place, bytes, log), Dump::close);
      try {
        fill(criu, image, kept, disk, limit);
        if (isSnapshot) {
          saveFiles.hideNames();
          written =
              new WrittenImage(
                  job,
                  image,
                  saveFiles,
                  directory.toAbsolutePath(),
                  options.deadline(),
                  this::isCancelled,
                  steps,
                  requireDraft());
        }
      } finally {
        if (written == null && !disk.hangs()) {
          disk.tidy("tidy", context.timeouts().call(), () -> saveFiles.closeWith(image));
        }
      }
    } catch (RuntimeException e) {
      operation.noteStates();
      throw e;
    }
  }

  /** Has the GPU memory and CRIU's files written, with nothing slowed by memory that is made. */
  private void fill(
      CriuDriver criu,
      StagedImage image,
      Manifest.Options kept,
      BoundedDiskTask disk,
      WorkLimit limit) {
    // In memory the process waits only for its checksums.
    boolean isSummed = !isSnapshot && image.isInMemory();
    HostMemoryPool.Copies reading = context.hostMemory().copying(isSummed ? 1 : 0);
    try {
      saveFiles.look(criu);
      WorkLimit copying = WorkLimit.copying(root.pid(), limit.remaining(), this::isCancelled);
      if (!isSnapshot) {
        saveFiles.copy(image, disk, copying, late -> saveFiles.closeWith(image));
      }
      saveFiles.name(image, disk, late -> saveFiles.closeWith(image));
      if (!isSnapshot) {
        saveFiles.write(image, disk, copying, late -> saveFiles.closeWith(image));
      }
      dump(criu, image, kept, disk);
    } finally {
      reading.close();
    }
  }

  private boolean isCancelled() {
    return options.cancellation().map(Cancellation::isCancelled).orElse(false);
  }

  /** Those from which device files are to be taken. */
  private List<ProcessIdentity> holders(TreeCheck tree, WorkLimit limit) {
    if (job.plugin() == null) {
      return tree.require();
    }
    AmdTree.require(root, "dump", limit::check);
    return List.of();
  }

  /** The state that a dump leaves when it fails. */
  private ProcessState stays() {
    return job.plugin() == null ? ProcessState.CHECKPOINTED : ProcessState.RUNNING;
  }

  private Path place(Path directory) {
    try {
      return ImagePlace.of(directory);
    } catch (IOException e) {
      throw new ImageException(
          ImageException.Reason.DIRECTORY,
          "process %s was not dumped: no image can be made at %s (%s): name a directory that can be made"
              .formatted(root.pid(), directory, ImagePlace.reason(e)),
          operation.failure(null, stays()),
          e);
    }
  }

  /**
   * Writes a journal entry before the first directory is made, so that a recovery knows where to
   * look. The entries of the members will not do: a failed dump overwrites them.
   */
  private StagedImage stage(Path place, long bytes, LogDirectory log) {
    ImageEntry entry = job.noteImage(place, log.path());
    try {
      StagedImage image = StagedImage.create(place, root, bytes, context.imageKey(), log);
      image.removesWhenClosed(entry);
      return image;
    } catch (RuntimeException | Error e) {
      entry.close();
      throw e;
    }
  }

  /** One that was staged, if it was, when nobody waited for it any more. */
  static void close(@Nullable StagedImage image) {
    if (image != null) {
      image.close();
    }
  }

  private void dump(
      CriuDriver criu, StagedImage image, Manifest.Options kept, BoundedDiskTask disk) {
    try {
      steps.run("dump", () -> criuDump(criu, image, kept, disk), DumpReport::bytes);
      image.logUnwanted();
    } catch (RuntimeException e) {
      ended(image, e);
    }
  }

  /** Returns when the process is gone: its image is complete, and all that is left of it. */
  private void ended(StagedImage image, RuntimeException e) {
    boolean complete = published != null || (isSnapshot && draft != null && notSealed == null);
    DumpEnd end =
        complete
            ? DumpEnd.of(root, e, context.timeouts().call())
            : DumpEnd.LIVES; // or it died, but not because of us
    if (isSnapshot && end != DumpEnd.LIVES) {
      // CRIU was to let it run on. If it cannot be resumed its image is published all the same.
      image.logUnwanted();
      LOG.warn(
          "the image of process {} is complete, but CRIU's end was not clean: {}",
          root.pid(),
          e.getMessage());
      return;
    }
    switch (end) {
      case LIVES -> {
        // An image of a process that lives on might be restored beside it one day.
        image.retractWhenClosed();
        if (notSealed != null && job.mayLive()) {
          // CRIU's error and log only say that we refused.
          image.logUnwanted();
          throw notSealed;
        }
        image.endedWith(e);
        throw e;
      }
      case UNKNOWN -> {
        image.endedWith(e);
        throw kept(e);
      }
      case GONE -> {
        image.logUnwanted();
        LOG.warn(
            "process {} is gone and its image durable, but CRIU's end was not clean: {}",
            root.pid(),
            e instanceof CriuReport unclean ? unclean.criu().exit() : e.getMessage());
      }
    }
  }

  private ImageKeptException kept(RuntimeException e) {
    Failure known = operation.failure(null, null);
    return new ImageKeptException(
        "the image of process %s at %s is complete and on disk, but CRIU did not end well and the process may or may not live on: once process %s is gone restore the image, and if it runs on remove the image (%s)"
            .formatted(root.pid(), requirePublished().path(), root.pid(), e.getMessage()),
        new Failure(
            known.operation(),
            known.pid(),
            known.before(),
            null,
            known.elapsed(),
            null,
            Fate.UNKNOWN),
        requirePublished().path(),
        e);
  }

  private DumpReport criuDump(
      CriuDriver criu, StagedImage image, Manifest.Options kept, BoundedDiskTask disk) {
    return criu.dump(
        new DumpRequest(root, image.images(), image.work(), options).with(job.plugin()),
        new DumpListener() {
          @Override
          public void postDump() {
            try {
              describe(criu, image, kept, disk);
              if (!isSnapshot) {
                seal();
              }
            } catch (RuntimeException e) {
              notSealed = e;
              throw e;
            }
          }

          private void seal() {
            steps.run(
                "seal",
                () -> {
                  published =
                      disk.run(
                          "seal",
                          () -> image.publish(requireDraft()),
                          made -> {
                            image.retractWhenClosed();
                            saveFiles.closeWith(image);
                          });
                  return published;
                },
                made -> made.manifest().bytes());
          }
        });
  }

  /** Adds what is to be learned of the process while CRIU holds it. */
  private void describe(
      CriuDriver criu, StagedImage image, Manifest.Options kept, BoundedDiskTask disk) {
    ImageMachine machine =
        disk.run(
            "describe",
            () -> {
              // CRIU holds the tree now: nobody leaves it any more.
              TreeCheck.requireInTree(operation);
              saveFiles.requireRecorded(image.images());
              // Where a plugin moves the GPU state there need not be a CUDA driver.
              int cuda = job.plugin() == null ? context.cuda().version() : 0;
              CarriedState carried = CarriedState.of(root.pid(), cuda);
              image.add(CarriedState.FILE, carried.text());
              return MachineSurvey.of(
                  context.inventory(), root.pid(), isolation.isPresent(), carried.files());
            },
            late -> saveFiles.closeWith(image));
    String label = options.label().orElse(null);
    draft =
        ManifestDraft.of(
            job, criu, kept, label, saveFiles.memory(), machine, steps.taken(), clock.instant());
  }

  private ImageDirectory requirePublished() {
    return told(published);
  }

  private Function<List<ImageFile>, Manifest> requireDraft() {
    return told(draft);
  }

  private <T> T told(@Nullable T made) {
    if (made == null) {
      throw new IllegalStateException(
          "the CRIU driver dumped process " + root.pid() + " without telling postDump");
    }
    return made;
  }
}
