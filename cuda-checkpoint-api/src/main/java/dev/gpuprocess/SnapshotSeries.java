package dev.gpuprocess;

import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.error.OperationInProgressException;
import dev.gpuprocess.error.ProcessUnreadableException;
import dev.gpuprocess.error.StaleStateException;
import dev.gpuprocess.error.UnsupportedResourceException;
import dev.gpuprocess.error.WrongStateException;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.dump.Snapshot;
import dev.gpuprocess.internal.engine.DriverOperation;
import dev.gpuprocess.internal.engine.StateHandle;
import dev.gpuprocess.internal.store.ImageNaming;
import dev.gpuprocess.internal.time.Repetition;
import dev.gpuprocess.options.ResumeOptions;
import dev.gpuprocess.process.ProcessIdentity;
import dev.gpuprocess.progress.SkippedSnapshot;
import dev.gpuprocess.progress.SkippedSnapshot.Reason;
import java.time.Duration;
import java.time.InstantSource;
import java.util.List;
import java.util.Optional;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** What is done for one process each time a snapshot is due, and who is told of it. */
final class SnapshotSeries implements Repetition.Work {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  private static final String VERB = "snapshot";
  private static final String TRACER = "tracer ";
  private static final Duration PAUSE = Duration.ofSeconds(1);

  /** Not long, so that a close need not wait long. */
  private static final ResumeOptions A_WHILE =
      ResumeOptions.builder().waitForMemory(Duration.ofSeconds(10)).build();

  private final EngineContext context;
  private final ProcessIdentity process;
  private final SnapshotPlan plan;
  private volatile @Nullable ProcessImage last;

  SnapshotSeries(EngineContext context, ProcessIdentity process, SnapshotPlan plan) {
    this.context = context;
    this.process = process;
    this.plan = plan;
  }

  Optional<ProcessImage> last() {
    return Optional.ofNullable(last);
  }

  /** Throws what the first snapshot would throw, as far as it can be known. */
  void requirePossible() {
    if (!plan.place().isFor(context)) {
      throw new IllegalArgumentException(
          "%s are read with another image key than those of process %s are made with: take the store of the same GpuCheckpoints"
              .formatted(plan.place(), process.pid()));
    }
    RunningProcess now = running();
    plan.place().make();
    Snapshot.requirePossible(
        context, now.identity(), plan.place().next(process.pid()).directory(), plan.options());
  }

  /** The process, if it is running. */
  private RunningProcess running() {
    DriverOperation looking = DriverOperation.reading(context, process.pid(), VERB);
    if (!looking.target().identity.equals(process)) {
      throw new NoSuchProcessException(
          "process %s has ended, and another one has its pid".formatted(process.pid()),
          Failure.of(VERB, process.pid()));
    }
    ProcessState state = looking.look();
    if (state != ProcessState.RUNNING) {
      throw new WrongStateException(
          "no snapshot is made of process %s while it is %s".formatted(process.pid(), state),
          looking.failure(null, state));
    }
    return new RunningProcess(StateHandle.next(looking.target(), List.of()));
  }

  @Override
  public void run(Repetition by) {
    try {
      ProcessImage image = make(by);
      LOG.debug("{} is made", image);
    } catch (RuntimeException | Error e) {
      LOG.debug("the listener was told of this", e);
    }
  }

  /**
   * Makes a snapshot, and tells the listener.
   *
   * @param by for how long to go on with bringing the process back, if it did not come back
   */
  ProcessImage make(Repetition by) {
    RunningProcess now = null;
    ProcessImage image;
    try {
      now = running();
      ImageNaming.Place place = plan.place().next(process.pid());
      image = now.snapshot(place.directory(), plan.options(), InstantSource.fixed(place.created()));
    } catch (RuntimeException | Error e) {
      Optional<SkippedSnapshot> skipped = skipped(e);
      if (skipped.isPresent()) {
        tell(listener -> listener.skipped(skipped.get()));
      } else if (now != null || !(e instanceof NoSuchProcessException)) {
        tell(listener -> listener.failed(e));
      }
      if (now != null && skipped.isEmpty()) {
        bringBack(by, now);
      }
      throw e;
    }
    last = image;
    plan.place().made(image);
    tell(listener -> listener.made(image));
    prune();
    return image;
  }

  /** Whether the process was not even touched, as others have it. */
  private Optional<SkippedSnapshot> skipped(Throwable e) {
    if (e instanceof StaleStateException
        || (e instanceof WrongStateException wrong && isAway(wrong))) {
      return Optional.of(new SkippedSnapshot(Reason.SUSPENDED, String.valueOf(e.getMessage())));
    }
    return e instanceof GpuCheckpointException refusal && isBusy(refusal)
        ? Optional.of(new SkippedSnapshot(Reason.BUSY, String.valueOf(e.getMessage())))
        : Optional.empty();
  }

  private boolean isBusy(GpuCheckpointException e) {
    if (e instanceof UnsupportedResourceException unsupported) {
      // A verb that moves its memory traces it for a moment.
      return e.failure().after() == null
          && unsupported.resources().stream().allMatch(each -> each.handle().startsWith(TRACER));
    }
    // About a disk that hangs it is not about the process.
    return e instanceof OperationInProgressException && e.failure().pid() == process.pid();
  }

  private static boolean isAway(GpuCheckpointException e) {
    ProcessState state = e.failure().after();
    return state == ProcessState.LOCKED || state == ProcessState.CHECKPOINTED;
  }

  /**
   * A snapshot that failed may have left the process suspended, as when other programs took its GPU
   * memory. Nobody else will bring it back.
   */
  private void bringBack(Repetition by, RunningProcess left) {
    do {
      try {
        if (!isAway()) {
          return;
        }
        RunningProcess back =
            new CheckpointedProcess(StateHandle.next(left.self.target(), List.of()))
                .resume(A_WHILE);
        LOG.info("{} again, after a snapshot that failed", back);
        return;
      } catch (NoSuchProcessException | StaleStateException e) {
        LOG.info("nothing is to be brought back: {}", e.getMessage());
        return;
      } catch (GpuCheckpointException e) {
        LOG.warn("process {} will be brought back: {}", process.pid(), e.getMessage());
      }
    } while (by.pause(PAUSE));
  }

  private boolean isAway() {
    ProcessState state = DriverOperation.reading(context, process.pid(), VERB).look();
    return state == ProcessState.LOCKED || state == ProcessState.CHECKPOINTED;
  }

  private void prune() {
    plan.place()
        .prune(
            plan.retention(),
            report -> tell(listener -> listener.pruned(report)),
            why -> tell(listener -> listener.pruneFailed(why)));
  }

  @Override
  public void leftOut() {
    skip(
        Reason.PREVIOUS_RUNNING,
        "a snapshot of process %s was due while the one before was still being made");
  }

  @Override
  public void missed(long count) {
    skip(
        Reason.MISSED,
        count
            + " snapshots of process %s were due while this JVM stood still or its listener worked");
  }

  private void skip(Reason reason, String message) {
    tell(
        listener ->
            listener.skipped(new SkippedSnapshot(reason, message.formatted(process.pid()))));
  }

  @Override
  public boolean isOver() {
    try {
      return !process.isAlive();
    } catch (ProcessUnreadableException e) {
      LOG.debug("whether process {} lives is not known", process.pid(), e);
      return false;
    }
  }

  @Override
  public void ended(boolean closed) {
    tell(listener -> listener.ended(closed));
  }

  private void tell(Consumer<SnapshotListener> news) {
    try {
      news.accept(plan.listener());
    } catch (Throwable e) {
      // A listener that fails ends no snapshots.
      LOG.warn("the listener of the snapshots of process {} failed", process.pid(), e);
    }
  }
}
