package dev.gpuprocess;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.FixAndRetryException;
import dev.gpuprocess.error.OperationInProgressException;
import dev.gpuprocess.error.StaleStateException;
import dev.gpuprocess.internal.launch.LaunchedRestore;
import dev.gpuprocess.internal.launch.LaunchedRoot;
import dev.gpuprocess.internal.restore.ImageRestore;
import dev.gpuprocess.internal.text.Printable;
import dev.gpuprocess.internal.time.Durations;
import dev.gpuprocess.internal.time.Threads;
import dev.gpuprocess.options.RestoreOptions;
import dev.gpuprocess.options.ResumeOptions;
import dev.gpuprocess.report.ProcessIdentity;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Predicate;
import org.jspecify.annotations.Nullable;

/** A restore and a resume as one operation. The image stays, so what failed is ended. */
final class ImageResume {

  private final ProcessImage image;
  private final RestoreOptions options;
  private boolean isNew;

  ImageResume(ProcessImage image, RestoreOptions options) {
    this.image = image;
    this.options = options;
  }

  RunningProcess run(ResumeOptions resume) {
    return resumed(image.restore(options), resume);
  }

  /** The same, as a launched process of this JVM. */
  LaunchedRoot launch(ResumeOptions resume) {
    ImageRestore restore = image.restoring();
    CheckpointedProcess restored = new CheckpointedProcess(restore.launch(options));
    LaunchedRestore launch = restore.launched().orElseThrow();
    isNew = !launch.isKnown();
    RunningProcess unused = resumed(restored, resume);
    return launch.launched().orElseThrow();
  }

  private RunningProcess resumed(CheckpointedProcess restored, ResumeOptions resume) {
    RunningProcess running;
    try {
      running = restored.resume(resume);
    } catch (RuntimeException | Error e) {
      if (!isTaken(e)) {
        end(restored).ifPresent(e::addSuppressed);
      }
      throw e;
    }
    options.check().ifPresent(check -> require(check, running));
    return running;
  }

  /** Returns whether another controller has taken the process. */
  private static boolean isTaken(Throwable why) {
    // Without a pid, a controller is at work on the reservations of GPU memory only.
    return why instanceof StaleStateException
        || (why instanceof OperationInProgressException busy && busy.failure().pid() != 0);
  }

  private void require(Predicate<ProcessIdentity> check, RunningProcess running) {
    FutureTask<Boolean> checked = new FutureTask<>(() -> check.test(running.identity()));
    Thread thread = Threads.daemon("gpuprocess check of " + running.pid(), checked);
    Optional<CheckFailure> failure;
    try {
      thread.start();
      failure = failure(checked);
    } catch (OutOfMemoryError e) {
      failure = Optional.of(new CheckFailure("no thread for the check can be started", e));
    }
    if (failure.isEmpty()) {
      return;
    }
    checked.cancel(true);
    Optional<Throwable> left = end(running);
    FixAndRetryException failed =
        new FixAndRetryException(
            FixAndRetryException.Reason.CHECK_FAILED,
            "process %s was restored from %s and resumed, but %s: it was %s, and the image stays"
                .formatted(
                    running.pid(),
                    image.directory(),
                    failure.get().words(),
                    left.map(e -> "not ended (%s)".formatted(e.getMessage())).orElse("ended")),
            Failure.of("resume", running.pid()),
            failure.get().cause());
    left.ifPresent(failed::addSuppressed);
    throw failed;
  }

  private record CheckFailure(String words, @Nullable Throwable cause) {}

  private Optional<CheckFailure> failure(FutureTask<Boolean> checked) {
    Duration limit = options.checkDeadline();
    boolean interrupted = false;
    try {
      return checked.get(Durations.nanos(limit), TimeUnit.NANOSECONDS)
          ? Optional.empty()
          : Optional.of(new CheckFailure("the check returned false", null));
    } catch (ExecutionException e) {
      return Optional.of(new CheckFailure("the check threw " + e.getCause(), e.getCause()));
    } catch (TimeoutException e) {
      return Optional.of(new CheckFailure("the check took longer than " + Printable.of(limit), e));
    } catch (InterruptedException e) {
      interrupted = true;
      return Optional.of(new CheckFailure("this thread was interrupted during the check", e));
    } finally {
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }

  /**
   * Ends the process, so that the image can be restored again.
   *
   * @return why that failed; empty if the process has ended
   */
  private Optional<Throwable> end(LiveProcess restored) {
    try (LaunchedRoot.DumpInProgress away = LaunchedRoot.dumping(restored.self.tree().root)) {
      restored.self.discard();
      if (!isNew) {
        away.done(); // a launched process of the caller has not exited: it is in its image again
      }
      return Optional.empty();
    } catch (RuntimeException | Error e) {
      return Optional.of(e);
    }
  }
}
