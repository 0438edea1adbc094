package dev.gpuprocess;

import dev.gpuprocess.error.LockTimeoutException;
import dev.gpuprocess.internal.launch.RequestChannel;
import dev.gpuprocess.internal.launch.RequestChannel.Request;
import dev.gpuprocess.internal.time.IoAction;
import dev.gpuprocess.internal.time.Threads;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.report.Step;
import dev.gpuprocess.report.StepListener;
import java.io.IOException;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.slf4j.event.Level;

/**
 * The snapshots that a launched process requests: one thread reads the requests, another makes
 * them.
 */
final class RequestedSnapshots {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  /** A pause between two pieces of GPU work is shorter than this. */
  private static final Duration IDLE = Duration.ofMillis(50);

  /** Between two attempts to find the GPUs idle, which each hold CUDA calls back. */
  private static final long PAUSE_NANOS = 250_000_000;

  /** In pauses; each attempt looks at the whole job. */
  private static final int LONGEST_PAUSE = 8;

  /** The GPUs are locked for this long. */
  private static final Duration BEGIN_LIMIT = Duration.ofSeconds(2);

  private static final Duration ANSWER_LIMIT = Duration.ofSeconds(10);

  /** Between two attempts to bring the process back. */
  private static final long BRING_BACK_NANOS = 1_000_000_000;

  private final GpuCheckpoints checkpoints;
  private final LaunchedProcess job;
  private final SnapshotPlan plan;
  private final RequestChannel channel;
  private @Nullable Request newest;
  private boolean over;

  RequestedSnapshots(
      GpuCheckpoints checkpoints, LaunchedProcess job, SnapshotPlan plan, RequestChannel channel) {
    this.checkpoints = checkpoints;
    this.job = job;
    this.plan = plan;
    this.channel = channel;
  }

  void begin() {
    String name = "gpuprocess requests of " + job.identity().pid();
    Threads.daemon(name, this::hear).start();
    Threads.daemon(name, this::work).start();
  }

  private void hear() {
    boolean reads = true;
    for (int failures = 0; reads; ) {
      try {
        Optional<Request> heard = channel.next();
        reads = heard.isPresent();
        heard.ifPresent(request -> change(() -> newest = request));
        failures = 0;
      } catch (RuntimeException | Error e) {
        // The process is running and requests more snapshots.
        LOG.warn("a request of process {} was not read", job.identity().pid(), e);
        failures++;
        pause(Math.min(failures, LONGEST_PAUSE) * PAUSE_NANOS, () -> true);
      }
    }
    change(() -> over = true);
  }

  private synchronized void change(Runnable change) {
    change.run();
    notifyAll();
  }

  private void work() {
    @Nullable Request done = null;
    for (Request next = after(done); next != null; next = after(done)) {
      done = next;
      try {
        answer(next);
      } catch (RuntimeException | Error e) {
        LOG.warn("process {} takes more requests", job.identity().pid(), e);
      }
    }
    plan.tell(listener -> listener.ended(false));
  }

  /** The next request, which has another token; null when the process has ended. */
  private synchronized @Nullable Request after(@Nullable Request done) {
    while (!over && (newest == null || isSame(newest, done))) {
      pause(Long.MAX_VALUE, () -> newest == null || isSame(newest, done));
    }
    return over ? null : newest;
  }

  private static boolean isSame(@Nullable Request one, @Nullable Request other) {
    return one != null && other != null && one.token().equals(other.token());
  }

  /** Waits as long as that holds, but not longer than some time, and not when all is over. */
  private synchronized void pause(long nanos, BooleanSupplier reason) {
    long begin = System.nanoTime();
    try {
      for (long left = nanos; left > 0 && !over && reason.getAsBoolean(); ) {
        TimeUnit.NANOSECONDS.timedWait(this, Math.max(left, 1_000_000));
        left = nanos - (System.nanoTime() - begin);
      }
    } catch (InterruptedException e) {
      // The thread is ours.
      LOG.debug("the requests of process {} are not ended in this way", job.identity().pid(), e);
    }
  }

  private void answer(Request request) {
    ProcessIdentity root = job.identity();
    for (int attempts = 1; isWanted(request, root); attempts++) {
      boolean urgent = isUrgent(request);
      SnapshotAttempt attempt = attempt(request, root, urgent);
      ProcessImage image;
      try {
        image = attempt.make();
      } catch (RuntimeException | Error e) {
        if (urgent || !isNotIdle(e)) {
          refuse(request, root, attempt, e);
          return;
        }
        LOG.trace("process {} is not idle", root.pid(), e);
        pause(
            Math.min(attempts, LONGEST_PAUSE) * PAUSE_NANOS,
            () -> isSame(request, newest) && !isUrgent(request));
        continue;
      }
      answer(() -> channel.original(root, request, ANSWER_LIMIT), root);
      plan.keep(image);
      return;
    }
    LOG.debug("who asked for a snapshot of process {} has ended, or was restored", root.pid());
  }

  private static boolean isNotIdle(Throwable why) {
    return why instanceof LockTimeoutException || SnapshotAttempt.skipped(why).isPresent();
  }

  private void refuse(
      Request request, ProcessIdentity root, SnapshotAttempt attempt, Throwable why) {
    if (!isThere(root)) {
      LOG.debug("process {} has ended, or is in an image", root.pid(), why);
      return;
    }
    String reason = String.valueOf(why.getMessage());
    answer(() -> channel.refused(root, request, reason, ANSWER_LIMIT), root);
    plan.tell(listener -> listener.failed(why));
    if (SnapshotAttempt.skipped(why).isEmpty()) {
      attempt.bringBack(
          () -> {
            pause(BRING_BACK_NANOS, () -> true);
            return isThere(root);
          });
    }
  }

  /** A root that was restored has told that to who asked before, and asks with another token. */
  private synchronized boolean isWanted(Request request, ProcessIdentity root) {
    return isThere(root) && isSame(request, newest);
  }

  private synchronized boolean isUrgent(Request request) {
    return request.urgent() || (isSame(request, newest) && newest != null && newest.urgent());
  }

  private SnapshotAttempt attempt(Request request, ProcessIdentity root, boolean urgent) {
    GpuCheckpoints.Builder settings =
        checkpoints.toBuilder()
            .listener(new Begun(request, root, checkpoints.context().listener()));
    if (!urgent) {
      settings.timeouts(checkpoints.context().timeouts().toBuilder().lock(IDLE).build());
    }
    return new SnapshotAttempt(new SnapshotSubject(settings.build().context(), root), plan);
  }

  /**
   * Requests that arrive when the GPUs are locked are not part of this snapshot, and are answered
   * so.
   */
  private final class Begun implements StepListener {

    private final Request request;
    private final ProcessIdentity root;
    private final StepListener next;
    private boolean isSaid;

    Begun(Request request, ProcessIdentity root, StepListener next) {
      this.request = request;
      this.root = root;
      this.next = next;
    }

    @Override
    public void started(String name, int pid) {
      if (name.equals("checkpoint") || name.equals("dump")) {
        sayOnce();
      }
      next.started(name, pid);
    }

    private synchronized void sayOnce() {
      if (!isSaid) {
        isSaid = true;
        boolean unused = isSaid(() -> channel.begun(root, request, BEGIN_LIMIT), root, true);
      }
    }

    @Override
    public void finished(Step step) {
      next.finished(step);
    }

    @Override
    public void failed(String name, int pid, RuntimeException failure) {
      next.failed(name, pid, failure);
    }
  }

  /**
   * Tries until the root has the answer, as it may be stopped for a while. Logs the first failure.
   */
  private void answer(IoAction saying, ProcessIdentity root) {
    for (int attempts = 1; isThere(root) && !isSaid(saying, root, attempts == 1); attempts++) {
      pause(Math.min(attempts, LONGEST_PAUSE) * PAUSE_NANOS, () -> true);
    }
  }

  private static boolean isSaid(IoAction saying, ProcessIdentity root, boolean isFirst) {
    try {
      saying.run();
      return true;
    } catch (IOException e) {
      Level level = isFirst ? Level.WARN : Level.DEBUG;
      LOG.atLevel(level)
          .log(
              "process {} does not take the answer to its request: {}", root.pid(), e.getMessage());
      return false;
    }
  }

  private synchronized boolean isThere(ProcessIdentity root) {
    return !over && job.identity().equals(root) && root.isAlive();
  }
}
