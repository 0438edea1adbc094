package dev.gpuprocess;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.error.OperationInProgressException;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.internal.text.Printable;
import dev.gpuprocess.internal.time.Repetition;
import dev.gpuprocess.report.ProcessIdentity;
import java.util.Optional;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The snapshots that are made of a process from time to time, by two daemon threads. They end with
 * {@link #close()}, or with the process: its dump is its end. When this JVM dies in the middle of
 * one, {@link GpuCheckpoints#recover()} mends what it leaves, and the images before it are where
 * they were. May be used from any thread.
 */
public final class RepeatedSnapshots implements AutoCloseable {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  private final SnapshotSubject subject;
  private final SnapshotPlan plan;
  private final SnapshotSeries series;
  private final Repetition repetition;

  private RepeatedSnapshots(SnapshotSubject subject, SnapshotPlan plan) {
    this.subject = subject;
    this.plan = plan;
    this.series = new SnapshotSeries(subject, plan);
    this.repetition =
        new Repetition(series, plan.interval(), "gpuprocess snapshots of " + subject.root().pid());
  }

  static RepeatedSnapshots begin(SnapshotSubject subject, SnapshotPlan plan) {
    RepeatedSnapshots snapshots = new RepeatedSnapshots(subject, plan);
    snapshots.series.requirePossible();
    snapshots.repetition.start();
    return snapshots;
  }

  /**
   * Which process they are of.
   *
   * @return its pid and start time
   */
  public ProcessIdentity process() {
    return subject.root();
  }

  /**
   * The newest image that was made, by {@link #snapshotNow()} too.
   *
   * @return empty until there is one; it may have been removed since
   */
  public Optional<ProcessImage> last() {
    return series.last();
  }

  /**
   * Whether more will be made.
   *
   * @return false when this was closed, or the process has ended
   */
  public boolean isActive() {
    return !repetition.isOver();
  }

  /**
   * Makes one now, on this thread, besides those that are due. The listener is notified as of any
   * other.
   *
   * @return the image
   * @throws OperationInProgressException when one is being made, or another verb is at work
   * @throws NoSuchProcessException when the process has ended
   * @throws dev.gpuprocess.error.FixAndRetryException with reason WRONG_STATE when the process is
   *     not running
   * @throws dev.gpuprocess.error.GpuCheckpointException as {@link RunningProcess#snapshot(
   *     java.nio.file.Path, dev.gpuprocess.options.DumpOptions)} and {@link
   *     RunningProcess#snapshot( java.nio.file.Path, dev.gpuprocess.options.DumpOptions)}
   * @throws IllegalStateException when this was closed
   */
  public ProcessImage snapshotNow() {
    if (!repetition.tryTake()) {
      throw refusal();
    }
    try {
      return series.make(repetition);
    } finally {
      repetition.release();
    }
  }

  private RuntimeException refusal() {
    if (!repetition.isOver()) {
      return new OperationInProgressException(
          "a snapshot of %s is being made: try again when the listener is notified of it"
              .formatted(subject.name()),
          Failure.of("snapshot", subject.root().pid()));
    }
    return subject.root().isAlive()
        ? new IllegalStateException(
            "the snapshots of %s were closed: begin new ones".formatted(subject.name()))
        : new NoSuchProcessException(
            "%s has ended, and its snapshots with it".formatted(subject.name()),
            Failure.of("snapshot", subject.root().pid()));
  }

  /**
   * Ends the snapshots. One that is being made is not cut short, as {@link #abandon()} and {@link
   * #dump()} do: this waits until it is done and the listener was notified, for up to the plan's
   * {@link SnapshotPlan#patience()}; after that it goes on without this call. Called by the
   * listener, this does not wait. An interrupt does not shorten the wait; the thread's flag stays
   * set. Does nothing more the second time.
   */
  @Override
  public void close() {
    repetition.close();
    if (!repetition.awaitEnd(plan.patience())) {
      LOG.info("a snapshot of {} goes on after the close", subject.name());
    }
  }

  /**
   * Ends the snapshots and gives up one that is being made: its process runs on, and nothing is
   * left of its image. The listener is notified of that as of a failure. Waits as {@link #close()}
   * does, which takes as long as the process needs to be on its GPU again. Does nothing more the
   * second time.
   */
  public void abandon() {
    series.order(SnapshotAttempt::cancel);
    close();
  }

  /**
   * Ends the snapshots with a dump, after which the process is gone, as when a scheduler preempts
   * it. A snapshot that is being made becomes that dump if its process was not resumed yet: it is
   * not resumed, and ends when the image is durable. Parts of the process that do not use the GPU
   * may run until then, as in any snapshot. A snapshot whose process runs again is abandoned, and
   * the process is dumped. So this takes at most one dump and one resume, and the image has the
   * newest state.
   *
   * @return the image; the listener is notified of it, and the plan's retention is applied
   * @throws OperationInProgressException when another verb is at work
   * @throws NoSuchProcessException when the process has exited
   * @throws dev.gpuprocess.error.OperationTimedOutException when the snapshot that is being made
   *     does not end within the plan's {@link SnapshotPlan#patience()}; the snapshots have ended
   * @throws dev.gpuprocess.error.GpuCheckpointException as {@link RunningProcess#dump(
   *     java.nio.file.Path, dev.gpuprocess.options.DumpOptions)}; the snapshots have ended, and the
   *     process runs or the message says where it is
   */
  public ProcessImage dump() {
    series.order(SnapshotAttempt::makeDumpOrCancel);
    repetition.close();
    boolean hasEnded = repetition.awaitEnd(plan.patience());
    // It may have become the dump, and its listener or the removal of older images take long.
    Optional<ProcessImage> made = series.dumped();
    if (made.isPresent()) {
      return made.get();
    }
    if (!hasEnded) {
      throw new OperationTimedOutException(
          "a snapshot of %s that was being made has not ended within %s: dump the process when it has"
              .formatted(subject.name(), Printable.of(plan.patience())),
          Failure.of("dump", subject.root().pid()));
    }
    return series.dump();
  }

  @Override
  public String toString() {
    return "snapshots of %s to %s".formatted(subject.name(), plan.place().directory());
  }
}
