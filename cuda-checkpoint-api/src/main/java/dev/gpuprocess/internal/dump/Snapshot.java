package dev.gpuprocess.internal.dump;

import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.ProcessUnreadableException;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.engine.DriverOperation;
import dev.gpuprocess.internal.engine.Member;
import dev.gpuprocess.internal.engine.Resumption;
import dev.gpuprocess.internal.engine.StateHandle;
import dev.gpuprocess.internal.engine.StepRecorder;
import dev.gpuprocess.internal.engine.Suspension;
import dev.gpuprocess.internal.engine.TrackedProcess;
import dev.gpuprocess.internal.engine.Undo;
import dev.gpuprocess.internal.lock.ProcessLock;
import dev.gpuprocess.internal.store.ImageDirectory;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.process.ProcessIdentity;
import dev.gpuprocess.progress.SnapshotTimes;
import java.nio.file.Path;
import java.time.Duration;
import java.time.InstantSource;
import java.util.List;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Suspend, dump leaving the process alive, resume, as one operation: an image of a job that goes
 * on. The image gets durable after that.
 */
public final class Snapshot {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  private final StateHandle self;
  private final TrackedProcess target;
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
    this.target = self.target();
    this.options = leftRunning(options);
    this.steps = self.measured();
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
  public static void requirePossible(
      EngineContext context, ProcessIdentity process, Path directory, DumpOptions options) {
    new DumpCheck(context, process, directory, leftRunning(options), true).require();
  }

  /** Makes the image. Whatever fails, the process is resumed. */
  public DumpedImage into(Path directory) {
    requirePossible(target.context, target.identity, directory, options);
    Paused paused =
        target.exclusively(
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

  private Paused paused(DriverOperation operation, Path directory) {
    operation.require(ProcessState.RUNNING);
    target.note("snapshot", ProcessLock.Kind.MOVE);
    List<Member> members = List.of(new Member(operation, steps));
    long stopped = System.nanoTime();
    WrittenImage image;
    try {
      new Suspension(members).suspend(target.context.timeouts().lock());
      steps.rethrow();
      image = Dump.written(operation, target, options, steps, directory, clock);
    } catch (RuntimeException | Error e) {
      new Undo(members).backTo(ProcessState.RUNNING, e);
      throw e;
    }
    Throwable thrown = null;
    try {
      resume(members);
    } catch (RuntimeException | Error e) {
      thrown = e;
    }
    return new Paused(image, Duration.ofNanos(System.nanoTime() - stopped), thrown);
  }

  private void resume(List<Member> members) {
    try {
      Resumption.patient(members).resume(ProcessState.CHECKPOINTED);
    } finally {
      members.forEach(each -> target.leaveAt(each.operation().stateNow()));
    }
  }

  private ImageDirectory published(Paused paused) {
    try {
      return paused.image().publish();
    } catch (GpuCheckpointException e) {
      // Its lock was released: another verb may have ended it.
      throw mayLive() ? RunsOn.said(e, target.pid(), elapsed()) : e;
    }
  }

  private boolean mayLive() {
    try {
      return target.identity.isAlive();
    } catch (ProcessUnreadableException unknown) {
      LOG.debug("whether process {} lives is not known", target.pid(), unknown);
      return true;
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
