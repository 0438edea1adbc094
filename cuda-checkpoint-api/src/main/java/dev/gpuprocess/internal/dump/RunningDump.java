package dev.gpuprocess.internal.dump;

import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.Fate;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.ImageKeptException;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.internal.attributes.TreeAttributes;
import dev.gpuprocess.internal.call.BoundedCall;
import dev.gpuprocess.internal.call.Stop;
import dev.gpuprocess.internal.engine.Resumption;
import dev.gpuprocess.internal.engine.StateHandle;
import dev.gpuprocess.internal.engine.StepRecorder;
import dev.gpuprocess.internal.engine.Suspension;
import dev.gpuprocess.internal.engine.TrackedProcess;
import dev.gpuprocess.internal.engine.TrackedTree;
import dev.gpuprocess.internal.engine.TreeOperation;
import dev.gpuprocess.internal.engine.TreeSearch;
import dev.gpuprocess.internal.engine.VerbOutcome;
import dev.gpuprocess.internal.image.ImageDirectory;
import dev.gpuprocess.internal.launch.LaunchedRoot;
import dev.gpuprocess.internal.proc.ProcessUnreadableException;
import dev.gpuprocess.internal.state.ProcessLock;
import dev.gpuprocess.internal.time.Durations;
import dev.gpuprocess.internal.time.WorkLimit;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.report.SnapshotTimes;
import dev.gpuprocess.spi.GpuPlugin;
import java.nio.file.Path;
import java.time.Duration;
import java.time.InstantSource;
import java.util.List;
import java.util.Objects;
import java.util.function.Function;
import java.util.function.Supplier;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Suspends a running process and dumps it, as one operation. After a snapshot the process is
 * resumed, and then the image is made durable; after a dump the process is gone. If anything fails,
 * the process is resumed.
 */
public final class RunningDump {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  private final StateHandle self;
  private final String verb;
  private final TrackedTree tree;
  private final DumpOptions options;
  private final InstantSource clock;
  private final StepRecorder steps;
  private final SnapshotEnd end;
  private final long began = System.nanoTime();
  private long stopped;
  private @Nullable TreeAttributes attributes;

  private RunningDump(
      StateHandle self, String verb, DumpOptions options, InstantSource clock, SnapshotEnd end) {
    this.self = self;
    this.end = end;
    this.verb = verb;
    this.clock = clock;
    this.tree = self.tree();
    this.options = tree.context.criuOptions().of(options);
    this.steps = self.measuredAnew();
  }

  /**
   * The result of the part of a snapshot during which the process is suspended.
   *
   * @param dumped the image, if the process has ended as after a dump; null when it runs
   * @param thrown the failure of the resume; null when the process runs
   */
  private record Paused(
      ImageWriting image,
      Duration pause,
      @Nullable ImageDirectory dumped,
      @Nullable Throwable thrown) {}

  private static DumpOptions leftRunning(DumpOptions options) {
    return options.toBuilder().leaveStopped(false).leaveRunning(true).build();
  }

  /** Throws the exceptions of a snapshot, as far as they can be foreseen. Changes nothing. */
  public static void requirePossible(StateHandle self, Path directory, DumpOptions options) {
    RunningDump snapshot =
        new RunningDump(
            self, "snapshot", leftRunning(options), InstantSource.system(), new SnapshotEnd());
    boolean unusedResult =
        snapshot.exclusively(
            operation -> {
              TreeAttributes unused = snapshot.check(directory).requireAttributes(false);
              return true;
            });
  }

  /**
   * Makes an image of a process that continues.
   *
   * @param clock gives the time of the image
   * @param end may make it a dump while it is under way
   */
  public static DumpedImage snapshot(
      StateHandle self, Path directory, DumpOptions options, InstantSource clock, SnapshotEnd end) {
    return new RunningDump(self, "snapshot", leftRunning(options), clock, end).snapshot(directory);
  }

  /**
   * Writes a process to disk, after which it is gone.
   *
   * @param clock tells when the image is made
   */
  public static DumpedImage dump(
      StateHandle self, Path directory, DumpOptions options, InstantSource clock) {
    if (!options.endsTree()) {
      throw new IllegalArgumentException(
          "a dump of a running process ends it: make a snapshot to leave it running, or suspend it"
              + " and dump it to leave it stopped");
    }
    return new RunningDump(self, "dump", options, clock, new SnapshotEnd()).dump(directory);
  }

  private DumpedImage dump(Path directory) {
    try (Stop stop = stop()) {
      ImageDirectory image =
          exclusively(
              operation ->
                  suspended(
                      operation,
                      directory,
                      stop,
                      () -> Dump.sealed(operation, options, steps, directory, attributes, clock)));
      steps.rethrow();
      return new DumpedImage(image, steps.taken(), null);
    }
  }

  private DumpedImage snapshot(Path directory) {
    Paused paused;
    try (Stop stop = stop()) {
      paused = exclusively(operation -> paused(operation, directory, stop));
    }
    // The lock is released: other verbs may run on the process.
    Throwable thrown = paused.thrown();
    if (thrown != null) {
      throw afterwards(thrown, paused);
    }
    ImageDirectory image = paused.dumped() == null ? published(paused) : paused.dumped();
    steps.rethrow();
    return new DumpedImage(image, steps.taken(), new SnapshotTimes(paused.pause(), elapsed()));
  }

  private Stop stop() {
    return Suspension.stop(tree, verb, options.cancellation(), Durations.LONGEST);
  }

  private <T> T exclusively(Function<TreeOperation, T> body) {
    tree.members().forEach(each -> BoundedCall.requireCapacity(each.identity, verb));
    return tree.exclusively(
        verb,
        ProcessLock.Kind.MOVE,
        self.generation(),
        operation -> {
          operation.measuredBy(steps);
          operation.require(ProcessState.RUNNING);
          return body.apply(operation);
        });
  }

  private Duration elapsed() {
    return Duration.ofNanos(System.nanoTime() - began);
  }

  /** Throws the exceptions of the dump, as far as they can be foreseen while the process runs. */
  private DumpCheck check(Path directory) {
    GpuPlugin plugin = tree.plugin();
    boolean usesCuda = plugin == null;
    List<ProcessIdentity> members = usesCuda ? members() : List.of();
    DumpCheck check =
        new DumpCheck(tree.context, tree.root, members, directory, options, usesCuda, plugin);
    check.require();
    return check;
  }

  /** Returns the members, with those that appeared since the last scan. */
  private List<ProcessIdentity> members() {
    List<TrackedProcess> late =
        new TreeSearch(tree.context, tree.root, verb).newMembers(tree.members());
    return Stream.concat(tree.members().stream(), late.stream())
        .map(each -> each.identity)
        .toList();
  }

  private Paused paused(TreeOperation operation, Path directory, Stop stop) {
    ImageWriting image =
        suspended(
            operation,
            directory,
            stop,
            () ->
                Dump.written(
                    operation,
                    options,
                    steps,
                    directory,
                    Objects.requireNonNull(attributes),
                    clock));
    if (end.decide()) {
      return new Paused(image, sinceStopped(), dumped(operation, image), null);
    }
    Throwable thrown = null;
    try {
      resume(operation);
    } catch (RuntimeException | Error e) {
      VerbOutcome.addMembers(operation, e);
      thrown = e;
    }
    return new Paused(image, sinceStopped(), null, thrown);
  }

  private Duration sinceStopped() {
    return Duration.ofNanos(System.nanoTime() - stopped);
  }

  /**
   * Ends the process when its image is durable. If the image cannot be made so, the process is
   * resumed.
   */
  private ImageDirectory dumped(TreeOperation operation, ImageWriting written) {
    // The exit of a dumped process is not the end of a launched process.
    try (LaunchedRoot.DumpInProgress dump = LaunchedRoot.dumping(tree.root)) {
      ImageDirectory image = publishedOrResumed(operation, written);
      kill(operation, image);
      dump.done();
      int unused = tree.advance();
      tree.forget();
      return image;
    }
  }

  /**
   * Kills the process, whose image is durable. A process that exits slowly does not make its image
   * less complete.
   *
   * @throws ImageKeptException when it is unknown whether the process was killed
   */
  private void kill(TreeOperation operation, ImageDirectory image) {
    try {
      tree.kill();
    } catch (OperationTimedOutException e) {
      LOG.warn(
          "process {} was killed and is not gone yet; its image is complete", tree.root.pid(), e);
    } catch (ProcessUnreadableException e) {
      if (!tree.mayLive()) {
        LOG.warn("process {} was killed; its image is complete", tree.root.pid(), e);
        return;
      }
      operation.recordStates();
      ImageKeptException kept =
          new ImageKeptException(
              "the image of process %s at %s is complete and on disk, but it is unknown whether the process was killed: if process %s is gone, restore the image, and if it lives, resume it and remove the image (%s)"
                  .formatted(tree.root.pid(), image.path(), tree.root.pid(), e.getMessage()),
              new Failure(
                  verb, tree.root.pid(), ProcessState.RUNNING, null, elapsed(), null, Fate.UNKNOWN),
              image.path(),
              e);
      VerbOutcome.addMembers(operation, kept);
      throw kept;
    }
  }

  private static ImageDirectory publishedOrResumed(TreeOperation operation, ImageWriting written) {
    try {
      return written.publish();
    } catch (RuntimeException | Error e) {
      Resumption.rollBack(operation.members(), ProcessState.RUNNING, e);
      VerbOutcome.addMembers(operation, e);
      throw e;
    }
  }

  /** Suspends a running process and dumps it. If anything fails, it is resumed. */
  private <T> T suspended(TreeOperation operation, Path directory, Stop stop, Supplier<T> dump) {
    attributes = check(directory).requireAttributes(true);
    TreeCheck.requireInTree(operation);
    if (options.releaseInheritedGpu() && tree.plugin() == null) {
      release(operation);
    }
    stopped = System.nanoTime();
    Suspension.leaving(operation);
    try {
      operation.members().forEach(each -> each.process().note(verb, ProcessLock.Kind.MOVE));
      if (tree.plugin() == null) {
        stopped = Suspension.suspend(operation, tree.context.timeouts().lock(), stop);
      }
      steps.rethrow();
      return dump.get();
    } catch (ImageKeptException e) {
      // CRIU may have killed it, and the complete image may be all that is left of it.
      operation.recordStates();
      VerbOutcome.addMembers(operation, e);
      throw e;
    } catch (RuntimeException | Error e) {
      Resumption.rollBack(operation.members(), ProcessState.RUNNING, e);
      VerbOutcome.addMembers(operation, e);
      throw e;
    }
  }

  private void release(TreeOperation operation) {
    // A process that has begun to use CUDA is a member now and keeps its device files.
    new TreeSearch(tree.context, tree.root, verb)
        .newMembers(tree.members())
        .forEach(operation::add);
    operation.require(ProcessState.RUNNING);
    WorkLimit limit = WorkLimit.scanning("dump", tree.root.pid(), options.deadline());
    TreeCheck children = new TreeCheck(operation, limit, true);
    children.release(children.require(), steps);
  }

  private void resume(TreeOperation operation) {
    try {
      Resumption.patient(tree.context, operation.members()).resumeCheckpointed();
    } finally {
      operation.recordStates();
    }
  }

  private ImageDirectory published(Paused paused) {
    ImageWriting image = paused.image();
    try {
      ImageDirectory made = image.publish();
      image.requireNotLost();
      return made;
    } catch (GpuCheckpointException e) {
      // The lock was released: another verb may have ended the process.
      if (!image.mayBeLost() && tree.mayLive()) {
        e.leftAt(
            new Failure(
                verb,
                tree.root.pid(),
                ProcessState.RUNNING,
                ProcessState.RUNNING,
                elapsed(),
                null,
                Fate.RUNNING_AGAIN),
            tree.name() + " runs, and there is no new image");
      }
      throw e;
    }
  }

  /**
   * Publishes the image of a process that could not be resumed and may be lost. Returns why: the
   * failure of the resume, or that CRIU has ended the process, or may have.
   */
  private RuntimeException afterwards(Throwable thrown, Paused paused) {
    Throwable why = thrown;
    try {
      ImageDirectory made = paused.image().publishAtLength();
      tree.members().stream()
          .filter(TrackedProcess::isPoisoned)
          .forEach(each -> each.setFallbackImage(made.path()));
      paused.image().requireNotLost();
      steps.rethrow();
    } catch (RuntimeException | Error e) {
      why = explains(thrown, e) ? e : thrown;
      why.addSuppressed(why == e ? thrown : e);
    }
    if (why instanceof Error error) {
      throw error;
    }
    return (RuntimeException) why;
  }

  /** Whether the resume failed because CRIU had ended the process. */
  private static boolean explains(Throwable resume, Throwable end) {
    boolean isGone = resume instanceof NoSuchProcessException;
    return (end instanceof NoSuchProcessException && !(resume instanceof Error))
        || (end instanceof ImageKeptException && isGone);
  }
}
