package dev.gpuprocess;

import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.internal.dump.RunningDump;
import dev.gpuprocess.internal.engine.StateHandle;
import dev.gpuprocess.internal.proc.ProcessUnreadableException;
import dev.gpuprocess.internal.time.Repetition;
import dev.gpuprocess.report.SkippedSnapshot;
import dev.gpuprocess.report.SkippedSnapshot.Reason;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Optional;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** What is done for one process each time a snapshot is due. */
final class SnapshotSeries implements Repetition.Work {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  private static final Duration PAUSE = Duration.ofSeconds(1);

  private final SnapshotSubject subject;
  private final SnapshotPlan plan;
  private volatile @Nullable ProcessImage last;
  private volatile @Nullable ProcessImage dumped;

  /** What is done to the snapshot that is being made, and to one that begins. */
  private Consumer<SnapshotAttempt> order = attempt -> {};

  private @Nullable SnapshotAttempt current;

  SnapshotSeries(SnapshotSubject subject, SnapshotPlan plan) {
    this.subject = subject;
    this.plan = plan;
  }

  Optional<ProcessImage> last() {
    return Optional.ofNullable(last);
  }

  /** The image of a snapshot that became a dump. */
  Optional<ProcessImage> dumped() {
    return Optional.ofNullable(dumped);
  }

  /** Throws what the first snapshot would throw, as far as it can be known. */
  void requirePossible() {
    plan.place().requireFor(subject.context());
    StateHandle now = subject.running();
    plan.place().create();
    Path first = plan.place().next(subject.root().pid()).directory();
    RunningDump.requirePossible(now, first, plan.options());
  }

  @Override
  public void run(Repetition by) {
    try {
      ProcessImage image = make(by);
      LOG.debug("{} is made", image);
    } catch (RuntimeException | Error e) {
      LOG.debug("the listener was notified of this", e);
    }
  }

  /**
   * Makes a snapshot, and tells the listener.
   *
   * @param by for how long to go on with bringing it back, if it did not come back
   */
  ProcessImage make(Repetition by) {
    SnapshotAttempt attempt = new SnapshotAttempt(subject, plan);
    ProcessImage image;
    try {
      begin(attempt);
      image = attempt.make();
    } catch (RuntimeException | Error e) {
      Optional<SkippedSnapshot> skipped = SnapshotAttempt.skipped(e);
      if (skipped.isPresent()) {
        plan.tell(listener -> listener.skipped(skipped.get()));
      } else {
        if (attempt.isBegun() || !(e instanceof NoSuchProcessException)) {
          plan.tell(listener -> listener.failed(e));
        }
        attempt.bringBack(() -> by.pause(PAUSE));
      }
      throw e;
    } finally {
      end();
    }
    last = image;
    if (attempt.isDump()) {
      dumped = image;
    }
    plan.keep(image);
    return image;
  }

  private synchronized void begin(SnapshotAttempt attempt) {
    current = attempt;
    order.accept(attempt);
  }

  private synchronized void end() {
    current = null;
  }

  /** Sets what becomes of the snapshot that is being made, if there is one. */
  synchronized void order(Consumer<SnapshotAttempt> what) {
    order = what;
    if (current != null) {
      what.accept(current);
    }
  }

  /** Dumps the process, and tells the listener. */
  ProcessImage dump() {
    ProcessImage image = subject.dump(plan.place().next(subject.root().pid()), plan.options());
    last = image;
    plan.keep(image);
    return image;
  }

  @Override
  public void leftOut() {
    skip(
        Reason.PREVIOUS_RUNNING,
        "a snapshot of %s was due while the one before was still being made");
  }

  @Override
  public void missed(long count) {
    skip(
        Reason.MISSED,
        count + " snapshots of %s were due while this JVM stood still or its listener worked");
  }

  private void skip(Reason reason, String message) {
    plan.tell(
        listener ->
            listener.skipped(new SkippedSnapshot(reason, message.formatted(subject.name()))));
  }

  @Override
  public boolean isOver() {
    try {
      return !subject.root().isAlive();
    } catch (ProcessUnreadableException e) {
      LOG.debug("whether {} lives is not known", subject.name(), e);
      return false;
    }
  }

  @Override
  public void ended(boolean closed) {
    plan.tell(listener -> listener.ended(closed));
  }
}
