package dev.gpuprocess;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.FixAndRetryException;
import dev.gpuprocess.error.OperationInProgressException;
import dev.gpuprocess.error.StaleStateException;
import dev.gpuprocess.internal.engine.TrackedTree;
import dev.gpuprocess.internal.launch.LaunchedRestore;
import dev.gpuprocess.internal.launch.LaunchedRoot;
import dev.gpuprocess.internal.restore.ImageRestore;
import dev.gpuprocess.internal.time.Durations;
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
    } catch (StaleStateException | OperationInProgressException e) {
      throw e; // another controller has taken the process
    } catch (RuntimeException | Error e) {
      end(restored, e);
      throw e;
    }
    options.check().ifPresent(check -> require(check, running));
    return running;
  }

  private void require(Predicate<ProcessIdentity> check, RunningProcess running) {
    FutureTask<Boolean> checked = new FutureTask<>(() -> check.test(running.identity()));
    Thread thread = new Thread(checked, "gpuprocess check of " + running.pid());
    thread.setDaemon(true);
    thread.start();
    Optional<FixAndRetryException> failed = failure(checked, running);
    if (failed.isPresent()) {
      checked.cancel(true);
      end(running, failed.get());
      throw failed.get();
    }
  }

  private Optional<FixAndRetryException> failure(
      FutureTask<Boolean> checked, RunningProcess running) {
    Duration limit = options.checkDeadline();
    boolean interrupted = false;
    try {
      return checked.get(Durations.nanos(limit), TimeUnit.NANOSECONDS)
          ? Optional.empty()
          : Optional.of(failed(running, "the check returned false", null));
    } catch (ExecutionException e) {
      return Optional.of(failed(running, "the check threw " + e.getCause(), e.getCause()));
    } catch (TimeoutException e) {
      return Optional.of(failed(running, "the check took longer than " + limit, e));
    } catch (InterruptedException e) {
      interrupted = true;
      return Optional.of(failed(running, "this thread was interrupted during the check", e));
    } finally {
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }

  private FixAndRetryException failed(
      RunningProcess running, String why, @Nullable Throwable cause) {
    return new FixAndRetryException(
        FixAndRetryException.Reason.CHECK_FAILED,
        "process %s was restored from %s and resumed, but %s: it was ended, and the image stays"
            .formatted(running.pid(), image.directory(), why),
        Failure.of("resume", running.pid()),
        cause);
  }

  /** Nothing of it stays, so that the image can be restored again. */
  private void end(LiveProcess restored, Throwable why) {
    TrackedTree tree = restored.self.tree();
    try (LaunchedRoot.DumpInProgress away = LaunchedRoot.dumping(tree.root)) {
      tree.kill();
      if (!isNew) {
        away.done(); // a launched process of the caller has not exited: it is in its image again
      }
      tree.forget();
    } catch (RuntimeException e) {
      why.addSuppressed(e);
    }
  }
}
