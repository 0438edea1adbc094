package dev.gpuprocess.internal.dump;

import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.Fate;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.ImageKeptException;
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
import dev.gpuprocess.internal.state.ProcessLock;
import dev.gpuprocess.internal.time.Durations;
import dev.gpuprocess.internal.time.WorkLimit;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.process.ProcessIdentity;
import dev.gpuprocess.progress.SnapshotTimes;
import dev.gpuprocess.spi.GpuPlugin;
import java.nio.file.Path;
import java.time.Duration;
import java.time.InstantSource;
import java.util.List;
import java.util.function.Function;
import java.util.function.Supplier;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * Suspends a running process and dumps it, as one operation. After a snapshot it is resumed, and
 * the image gets durable after that; after a dump it is gone. Whatever fails before, it is resumed.
 */
public final class RunningDump {

  private final StateHandle self;
  private final String verb;
  private final TrackedTree job;
  private final DumpOptions options;
  private final InstantSource clock;
  private final StepRecorder steps;
  private final long began = System.nanoTime();
  private long stopped;

  private RunningDump(StateHandle self, String verb, DumpOptions options, InstantSource clock) {
    this.self = self;
    this.verb = verb;
    this.clock = clock;
    this.job = self.tree();
    this.options = options;
    this.steps = self.measuredAnew();
  }

  /**
   * What the pause left.
   *
   * @param thrown what the resume threw; null when the process runs
   */
  private record Paused(WrittenImage image, Duration pause, @Nullable Throwable thrown) {}

  private static DumpOptions leftRunning(DumpOptions options) {
    return options.toBuilder().leaveStopped(false).leaveRunning(true).build();
  }

  /** Throws what a snapshot would throw, as far as it can be known; touches nothing. */
  public static void requirePossible(StateHandle self, Path directory, DumpOptions options) {
    RunningDump snapshot =
        new RunningDump(self, "snapshot", leftRunning(options), InstantSource.system());
    boolean unused =
        snapshot.exclusively(
            operation -> {
              snapshot.check(directory);
              return true;
            });
  }

  /**
   * Makes an image of a process that goes on.
   *
   * @param clock tells when the image is made
   */
  public static DumpedImage snapshot(
      StateHandle self, Path directory, DumpOptions options, InstantSource clock) {
    return new RunningDump(self, "snapshot", leftRunning(options), clock).snapshot(directory);
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
              + " and dump that to leave it stopped");
    }
    return new RunningDump(self, "dump", options, clock).dump(directory);
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
                      () -> Dump.toItsEnd(operation, options, steps, directory, clock)));
      steps.rethrow();
      return new DumpedImage(image, steps.taken(), null);
    }
  }

  private DumpedImage snapshot(Path directory) {
    Paused paused;
    try (Stop stop = stop()) {
      paused = exclusively(operation -> paused(operation, directory, stop));
    }
    // From here on other verbs may be used on the process.
    Throwable thrown = paused.thrown();
    if (thrown != null) {
      throw afterwards(thrown, paused);
    }
    ImageDirectory image = published(paused);
    steps.rethrow();
    return new DumpedImage(image, steps.taken(), new SnapshotTimes(paused.pause(), elapsed()));
  }

  private Stop stop() {
    return Suspension.stop(job, verb, options.cancellation(), Durations.LONGEST);
  }

  private <T> T exclusively(Function<TreeOperation, T> body) {
    job.members().forEach(each -> BoundedCall.requireCapacity(each.identity, verb));
    return job.exclusively(
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

  /** Throws what the dump would throw, as far as it can be known while the process runs. */
  private void check(Path directory) {
    GpuPlugin plugin = job.plugin();
    DumpCheck check =
        plugin == null
            ? new DumpCheck(job.context, job.root, members(), directory, options, true)
            : new DumpCheck(job.context, job.root, directory, options, plugin);
    check.require();
  }

  /** Those included that came since the process was looked at. */
  private List<ProcessIdentity> members() {
    List<TrackedProcess> late =
        new TreeSearch(job.context, job.root, verb).newMembers(job.members());
    return Stream.concat(job.members().stream(), late.stream()).map(each -> each.identity).toList();
  }

  private Paused paused(TreeOperation operation, Path directory, Stop stop) {
    WrittenImage image =
        suspended(
            operation,
            directory,
            stop,
            () -> Dump.written(operation, options, steps, directory, clock));
    Throwable thrown = null;
    try {
      resume(operation);
    } catch (RuntimeException | Error e) {
      VerbOutcome.addMembers(operation, e);
      thrown = e;
    }
    Duration pause = Duration.ofNanos(System.nanoTime() - stopped);
    return new Paused(image, pause, thrown);
  }

  /** Takes a running process off its GPU for a dump. Whatever fails, it is resumed. */
  private <T> T suspended(TreeOperation operation, Path directory, Stop stop, Supplier<T> dump) {
    check(directory);
    TreeCheck.requireInTree(operation);
    if (options.releaseInheritedGpu() && job.plugin() == null) {
      release(operation);
    }
    stopped = System.nanoTime();
    Suspension.leaving(operation);
    try {
      operation.members().forEach(each -> each.process().note(verb, ProcessLock.Kind.MOVE));
      if (job.plugin() == null) {
        stopped = Suspension.suspend(operation, job.context.timeouts().lock(), stop);
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
    // Nothing is taken from a process that has begun to use CUDA since the tree was looked at.
    new TreeSearch(job.context, job.root, verb).newMembers(job.members()).forEach(operation::add);
    operation.require(ProcessState.RUNNING);
    WorkLimit limit = WorkLimit.scanning("dump", job.root.pid(), options.deadline());
    TreeCheck tree = new TreeCheck(operation, limit, true);
    new ReleaseStep(operation, steps, limit, tree).run(tree.require());
  }

  private void resume(TreeOperation operation) {
    try {
      Resumption.patient(job.context, operation.members()).resumeCheckpointed();
    } finally {
      operation.recordStates();
    }
  }

  private ImageDirectory published(Paused paused) {
    try {
      return paused.image().publish();
    } catch (GpuCheckpointException e) {
      // Its lock was released: another verb may have ended it.
      if (job.mayLive()) {
        e.leftAt(
            new Failure(
                verb,
                job.root.pid(),
                ProcessState.RUNNING,
                ProcessState.RUNNING,
                elapsed(),
                null,
                Fate.RUNNING_AGAIN),
            job.name() + " runs on, and there is no new image of it");
      }
      throw e;
    }
  }

  /** The image may be all that can be saved of a process that did not come back. */
  private RuntimeException afterwards(Throwable thrown, Paused paused) {
    try {
      ImageDirectory unused = paused.image().publishAtLength();
      steps.rethrow();
    } catch (RuntimeException | Error e) {
      thrown.addSuppressed(e);
    }
    if (thrown instanceof Error error) {
      throw error;
    }
    return (RuntimeException) thrown;
  }
}
