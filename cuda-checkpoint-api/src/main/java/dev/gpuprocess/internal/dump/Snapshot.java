package dev.gpuprocess.internal.dump;

import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.internal.engine.JobFailures;
import dev.gpuprocess.internal.engine.JobOperation;
import dev.gpuprocess.internal.engine.MemberScan;
import dev.gpuprocess.internal.engine.Resumption;
import dev.gpuprocess.internal.engine.StateHandle;
import dev.gpuprocess.internal.engine.StepRecorder;
import dev.gpuprocess.internal.engine.Suspension;
import dev.gpuprocess.internal.engine.TrackedJob;
import dev.gpuprocess.internal.engine.TrackedProcess;
import dev.gpuprocess.internal.engine.Undo;
import dev.gpuprocess.internal.lock.ProcessLock;
import dev.gpuprocess.internal.proc.ScanLimit;
import dev.gpuprocess.internal.store.ImageDirectory;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.process.ProcessIdentity;
import dev.gpuprocess.progress.SnapshotTimes;
import dev.gpuprocess.spi.GpuPlugin;
import java.nio.file.Path;
import java.time.Duration;
import java.time.InstantSource;
import java.util.List;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * Suspend, dump leaving the process alive, resume, as one operation: an image of a job that goes
 * on. The image gets durable after that.
 */
public final class Snapshot {

  private final StateHandle self;
  private final TrackedJob job;
  private final DumpOptions options;
  private final InstantSource clock;
  private final StepRecorder steps;
  private final long began = System.nanoTime();

  /**
   * Prepares; nothing is done yet.
   *
   * @param clock tells when the image is made
   */
  public Snapshot(StateHandle self, DumpOptions options, InstantSource clock) {
    this.self = self;
    this.clock = clock;
    this.job = self.job();
    this.options = leftRunning(options);
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
  public static void requirePossible(TrackedJob job, Path directory, DumpOptions options) {
    List<ProcessIdentity> members = job.members().stream().map(each -> each.identity).toList();
    new DumpCheck(job.context, job.root, members, directory, leftRunning(options), true).require();
  }

  /** Makes the image. Whatever fails, the process is resumed. */
  public DumpedImage into(Path directory) {
    GpuPlugin plugin = job.plugin();
    DumpCheck check =
        plugin == null
            ? new DumpCheck(job.context, job.root, members(), directory, options, true)
            : new DumpCheck(job.context, job.root, directory, options, plugin);
    check.require();
    Paused paused =
        self.job()
            .exclusively(
                "snapshot",
                ProcessLock.Kind.MOVE,
                self.generation(),
                operation -> paused(operation, directory));
    // From here on other verbs may be used on the process.
    Throwable thrown = paused.thrown();
    if (thrown != null) {
      throw afterwards(thrown, paused);
    }
    ImageDirectory image = published(paused);
    steps.rethrow();
    return new DumpedImage(image, steps.taken(), new SnapshotTimes(paused.pause(), elapsed()));
  }

  private Duration elapsed() {
    return Duration.ofNanos(System.nanoTime() - began);
  }

  /** Those included that came since the job was looked at. */
  private List<ProcessIdentity> members() {
    Stream<TrackedProcess> late =
        job.isTree()
            ? new MemberScan(job.context, job.root, "snapshot").newcomers(job.members()).stream()
            : Stream.of();
    return Stream.concat(job.members().stream(), late).map(each -> each.identity).toList();
  }

  private Paused paused(JobOperation operation, Path directory) {
    operation.measuredBy(steps);
    operation.require(ProcessState.RUNNING);
    TreeCheck.requireInTree(operation);
    if (options.releaseInheritedGpu() && job.plugin() == null) {
      if (job.isTree()) {
        // Nothing is taken from those that have come to use CUDA since the job was looked at.
        new MemberScan(job.context, job.root, "snapshot")
            .newcomers(job.members())
            .forEach(operation::add);
        operation.require(ProcessState.RUNNING);
      }
      ScanLimit limit = ScanLimit.of("dump", job.root.pid(), options.deadline());
      TreeCheck tree = new TreeCheck(operation, limit, true);
      new ReleaseStep(operation, steps, limit, tree).run(tree.require());
    }
    long stopped = System.nanoTime();
    WrittenImage image;
    try {
      operation.each().forEach(each -> each.target().note("snapshot", ProcessLock.Kind.MOVE));
      if (job.plugin() == null) {
        new Suspension(operation).suspend(job.context.timeouts().lock());
      }
      steps.rethrow();
      image = Dump.written(operation, options, steps, directory, clock);
    } catch (RuntimeException | Error e) {
      new Undo(operation.members()).backTo(ProcessState.RUNNING, e);
      JobFailures.tell(operation, e);
      throw e;
    }
    Throwable thrown = null;
    try {
      resume(operation);
    } catch (RuntimeException | Error e) {
      JobFailures.tell(operation, e);
      thrown = e;
    }
    return new Paused(image, Duration.ofNanos(System.nanoTime() - stopped), thrown);
  }

  private void resume(JobOperation operation) {
    try {
      Resumption.patient(job.context, operation.members()).resumeCheckpointed();
    } finally {
      operation.leaveWhereTheyAre();
    }
  }

  private ImageDirectory published(Paused paused) {
    try {
      return paused.image().publish();
    } catch (GpuCheckpointException e) {
      // Its lock was released: another verb may have ended it.
      throw job.mayLive() ? RunsOn.said(e, job.name(), job.root.pid(), elapsed()) : e;
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
