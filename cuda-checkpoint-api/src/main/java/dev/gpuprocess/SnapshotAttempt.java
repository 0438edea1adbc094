package dev.gpuprocess;

import dev.gpuprocess.error.FixAndRetryException;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.error.OperationInProgressException;
import dev.gpuprocess.error.StaleStateException;
import dev.gpuprocess.internal.dump.SnapshotEnd;
import dev.gpuprocess.internal.engine.StateHandle;
import dev.gpuprocess.options.Cancellation;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.ResumeOptions;
import dev.gpuprocess.report.SkippedSnapshot;
import dev.gpuprocess.report.SkippedSnapshot.Reason;
import java.time.Duration;
import java.util.Optional;
import java.util.function.BooleanSupplier;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** One snapshot by a plan, and what to do when it fails. For one thread. */
final class SnapshotAttempt {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  /** Not long, so that a close need not wait long. */
  private static final ResumeOptions A_WHILE =
      ResumeOptions.builder().waitForMemory(Duration.ofSeconds(10)).build();

  private final SnapshotSubject subject;
  private final SnapshotPlan plan;
  private final SnapshotEnd end = new SnapshotEnd();
  private final Cancellation cancellation = new Cancellation();
  private @Nullable StateHandle running;

  SnapshotAttempt(SnapshotSubject subject, SnapshotPlan plan) {
    this.subject = subject;
    this.plan = plan;
  }

  /** Makes the image. No listener is notified. */
  ProcessImage make() {
    StateHandle now = subject.running();
    running = now;
    Cancellation.Registration ofPlan =
        plan.options()
            .cancellation()
            .map(given -> given.onCancel(cancellation::cancel))
            .orElse(() -> {});
    try (ofPlan) {
      DumpOptions options = plan.options().toBuilder().cancellation(cancellation).build();
      return subject.snapshot(now, plan.place().next(subject.root().pid()), options, end);
    }
  }

  /** Makes it a dump; if its process is being resumed already, gives it up. */
  void makeDumpOrCancel() {
    if (!end.makeDump()) {
      cancellation.cancel();
    }
  }

  /** Whether it was made a dump, so that the process is gone when it has succeeded. */
  boolean isDump() {
    return end.isDump();
  }

  /** Gives it up: the process runs on, and nothing is left of the image. */
  void cancel() {
    cancellation.cancel();
  }

  /** Whether the process was running, so that the snapshot began. */
  boolean isBegun() {
    return running != null;
  }

  /** Whether a failure is that others have the process, which was not even touched. */
  static Optional<SkippedSnapshot> skipped(Throwable why) {
    if (why instanceof StaleStateException
        || (why instanceof FixAndRetryException wrong
            && wrong.reason() == FixAndRetryException.Reason.WRONG_STATE
            && SnapshotSubject.isAway(wrong.failure().after()))) {
      return Optional.of(new SkippedSnapshot(Reason.SUSPENDED, String.valueOf(why.getMessage())));
    }
    return why instanceof GpuCheckpointException refusal && isBusy(refusal)
        ? Optional.of(new SkippedSnapshot(Reason.BUSY, String.valueOf(why.getMessage())))
        : Optional.empty();
  }

  private static boolean isBusy(GpuCheckpointException why) {
    // About a disk that hangs it names no process.
    return why instanceof OperationInProgressException && why.failure().pid() != 0;
  }

  /**
   * Brings back what the attempt left suspended, as when other programs took its GPU memory. No
   * other code does this.
   *
   * @param pause waits before the next try; false to give up
   */
  void bringBack(BooleanSupplier pause) {
    StateHandle left = running;
    if (left == null) {
      return;
    }
    do {
      try {
        if (subject.isAway()) {
          subject.resume(left, A_WHILE);
          LOG.info("{} runs again, after a snapshot that failed", subject.name());
        }
        return;
      } catch (NoSuchProcessException | StaleStateException | PoisonedProcessException e) {
        LOG.info("nothing is to be brought back: {}", e.getMessage());
        return;
      } catch (GpuCheckpointException e) {
        LOG.warn("{} will be brought back: {}", subject.name(), e.getMessage());
      }
    } while (pause.getAsBoolean());
  }
}
