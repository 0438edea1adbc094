package dev.gpuprocess;

import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.LockTimeoutException;
import dev.gpuprocess.error.OperationInProgressException;
import dev.gpuprocess.error.RetryLaterException;
import dev.gpuprocess.error.StaleStateException;
import dev.gpuprocess.error.WrongStateException;
import dev.gpuprocess.internal.launch.RequestChannel;
import dev.gpuprocess.internal.launch.RequestChannel.Request;
import dev.gpuprocess.internal.store.ImageNaming;
import dev.gpuprocess.options.ResumeOptions;
import dev.gpuprocess.process.ProcessIdentity;
import dev.gpuprocess.progress.Step;
import dev.gpuprocess.progress.StepListener;
import java.io.IOException;
import java.time.Duration;
import java.time.InstantSource;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The snapshots that a launched job asks for: one thread hears it, another makes them. */
final class RequestedSnapshots {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  /** Work that is not done by then is no pause between two pieces of work. */
  private static final Duration IDLE = Duration.ofMillis(50);

  /** Between two attempts to find the GPUs idle, which each hold CUDA calls back. */
  private static final long PAUSE_NANOS = 250_000_000;

  /** In pauses; each attempt looks at the whole job. */
  private static final int LONGEST_PAUSE = 8;

  /** The GPUs are locked meanwhile. */
  private static final Duration BEGIN_LIMIT = Duration.ofSeconds(2);

  private static final Duration ANSWER_LIMIT = Duration.ofSeconds(10);

  private static final ResumeOptions A_WHILE =
      ResumeOptions.builder().waitForMemory(Duration.ofSeconds(10)).build();

  private final GpuCheckpoints checkpoints;
  private final LaunchedJob job;
  private final RequestPlan plan;
  private final RequestChannel channel;
  private @Nullable Request newest;
  private boolean over;

  RequestedSnapshots(
      GpuCheckpoints checkpoints, LaunchedJob job, RequestPlan plan, RequestChannel channel) {
    this.checkpoints = checkpoints;
    this.job = job;
    this.plan = plan;
    this.channel = channel;
  }

  void begin() {
    String name = "gpuprocess requests of " + job.identity().pid();
    for (Thread thread :
        new Thread[] {new Thread(this::hear, name), new Thread(this::work, name)}) {
      thread.setDaemon(true);
      thread.start();
    }
  }

  private void hear() {
    for (Optional<Request> heard = channel.next(); heard.isPresent(); heard = channel.next()) {
      Request request = heard.get();
      change(() -> newest = request);
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
        LOG.warn("job {} takes more requests", job.identity().pid(), e);
      }
    }
  }

  /** The next one that is asked for by another token; null when the job has ended. */
  private synchronized @Nullable Request after(@Nullable Request done) {
    pause(Long.MAX_VALUE, () -> newest == null || isSame(newest, done));
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
      LOG.debug("nobody ends the requests of job {} in this way", job.identity().pid(), e);
    }
  }

  private void answer(Request request) {
    ProcessIdentity root = job.identity();
    JobImage image;
    try {
      Optional<JobImage> made = made(request, root);
      if (made.isEmpty()) {
        LOG.debug("who asked for a snapshot of job {} has ended, or was restored", root.pid());
        return;
      }
      image = made.get();
    } catch (RuntimeException | Error e) {
      if (!isThere(root)) {
        LOG.debug("job {} has ended, or is in an image", root.pid(), e);
        return;
      }
      String why = String.valueOf(e.getMessage());
      answer(() -> channel.refused(root, request, why, ANSWER_LIMIT), root);
      tell(listener -> listener.failed(e));
      bringBack(e, root);
      return;
    }
    answer(() -> channel.original(root, request, ANSWER_LIMIT), root);
    plan.place().made(image);
    tell(listener -> listener.made(image));
    prune();
  }

  /** Empty when there is nobody to be answered any more. */
  private Optional<JobImage> made(Request request, ProcessIdentity root) {
    for (int attempt = 1; isWanted(request, root); attempt++) {
      boolean urgent = isUrgent(request);
      try {
        return Optional.of(snapshot(request, root, urgent));
      } catch (GpuCheckpointException e) {
        if (urgent || !(e instanceof LockTimeoutException || isOfOthers(e))) {
          throw e;
        }
        LOG.trace("job {} is not idle", root.pid(), e);
      }
      pause(
          Math.min(attempt, LONGEST_PAUSE) * PAUSE_NANOS,
          () -> isSame(request, newest) && !isUrgent(request));
    }
    return Optional.empty();
  }

  /** A root that was restored has told that to who asked before, and asks with another token. */
  private synchronized boolean isWanted(Request request, ProcessIdentity root) {
    return isThere(root) && isSame(request, newest);
  }

  private synchronized boolean isUrgent(Request request) {
    return request.urgent() || (isSame(request, newest) && newest != null && newest.urgent());
  }

  private JobImage snapshot(Request request, ProcessIdentity root, boolean urgent) {
    GpuCheckpoints.Builder settings =
        checkpoints.toBuilder()
            .listener(new Begun(request, root, checkpoints.context().listener()));
    if (!urgent) {
      settings.timeouts(checkpoints.context().timeouts().toBuilder().lock(IDLE).build());
    }
    RunningJob running = settings.build().job(root.pid());
    ImageNaming.Place next = plan.place().next(root.pid());
    return running.snapshot(next.directory(), plan.options(), InstantSource.fixed(next.created()));
  }

  /** Who asks once the GPUs are locked gets no part in this snapshot, and must be told so. */
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
        boolean unused = isSaid(() -> channel.begun(root, request, BEGIN_LIMIT), root);
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

  /** Something to be said to the job. */
  @FunctionalInterface
  private interface Saying {
    void run() throws IOException;
  }

  /** Until it is heard: the root may be stopped for a while. */
  private void answer(Saying saying, ProcessIdentity root) {
    while (isThere(root) && !isSaid(saying, root)) {
      pause(PAUSE_NANOS, () -> true);
    }
  }

  private static boolean isSaid(Saying saying, ProcessIdentity root) {
    try {
      saying.run();
      return true;
    } catch (IOException e) {
      LOG.warn("job {} is not told about its request: {}", root.pid(), e.getMessage());
      return false;
    }
  }

  /** A snapshot that failed may have left the job suspended. Nobody else will bring it back. */
  private void bringBack(Throwable failure, ProcessIdentity root) {
    if (isOfOthers(failure) || !(failure instanceof GpuCheckpointException)) {
      return;
    }
    while (isThere(root) && !isBack(root)) {
      pause(PAUSE_NANOS, () -> true);
    }
  }

  /** Whether another verb has the job, which was not even touched. */
  private static boolean isOfOthers(Throwable failure) {
    return failure instanceof StaleStateException
        || failure instanceof OperationInProgressException
        || (failure instanceof WrongStateException wrong
            && (wrong.failure().after() == ProcessState.LOCKED
                || wrong.failure().after() == ProcessState.CHECKPOINTED));
  }

  private synchronized boolean isThere(ProcessIdentity root) {
    return !over && job.identity().equals(root) && root.isAlive();
  }

  private boolean isBack(ProcessIdentity root) {
    try {
      GpuJob left = checkpoints.inspectJob(root.pid());
      if (left.state() == ProcessState.RUNNING) {
        return true;
      }
      if (left instanceof CheckpointedJob checkpointed) {
        LOG.info("{} again, after a snapshot that failed", checkpointed.resume(A_WHILE));
      } else if (left instanceof LockedJob locked) {
        LOG.info("{} again, after a snapshot that failed", locked.unlock());
      }
      return true;
    } catch (RetryLaterException e) {
      LOG.warn("job {} will be brought back: {}", root.pid(), e.getMessage());
      return false;
    } catch (GpuCheckpointException e) {
      LOG.warn("job {} is left as it is: {}", root.pid(), e.getMessage());
      return true;
    }
  }

  private void prune() {
    plan.place()
        .prune(
            plan.retention(),
            report -> tell(listener -> listener.pruned(report)),
            why -> tell(listener -> listener.pruneFailed(why)));
  }

  private void tell(Consumer<RequestListener> news) {
    try {
      news.accept(plan.listener());
    } catch (Throwable e) {
      // A listener that fails ends nothing.
      LOG.warn("the listener of the requests of job {} failed", job.identity().pid(), e);
    }
  }
}
