package dev.gpuprocess.examples.slurm;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.ImageStore;
import dev.gpuprocess.LaunchedProcess;
import dev.gpuprocess.PoisonedProcess;
import dev.gpuprocess.PoisonedProcessException;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.RepeatedSnapshots;
import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.SnapshotListener;
import dev.gpuprocess.SnapshotPlan;
import dev.gpuprocess.error.Fate;
import dev.gpuprocess.error.FixAndRetryException;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.error.ImageKeptException;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.error.NotCudaProcessException;
import dev.gpuprocess.error.RetryLaterException;
import dev.gpuprocess.error.StaleStateException;
import dev.gpuprocess.image.StoredImage;
import dev.gpuprocess.options.Cancellation;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.RetentionPolicy;
import dev.gpuprocess.options.SuspendOptions;
import dev.gpuprocess.report.SkippedSnapshot;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * The images of a job: snapshots while its command runs, and the dump with which a run ends. Used
 * by one thread.
 */
final class JobImages {

  private static final int SIGKILL = 9;
  private static final int KEPT_IMAGES = 2;

  /** For how long after the grace a CRIU whose dump has failed may kill the command. */
  private static final Duration LATE_KILL = Duration.ofMinutes(5);

  private static final Duration RETRY = Duration.ofMillis(100);
  private static final Duration SPACE_RETRY = Duration.ofSeconds(1);

  private final GpuCheckpoints machine;
  private final SlurmJob job;
  private final JobRun.Settings settings;
  private final ImageStore store;
  private final JobEvents events;
  private final Consumer<String> log;
  private Cancellation dumpCancellation = new Cancellation();

  /** Until when a CRIU that has failed may kill the command, which is in a complete image. */
  private volatile OptionalLong lateKill = OptionalLong.empty();

  private @Nullable RepeatedSnapshots snapshots;

  /** Is counted down at the end of the newest series of snapshots. */
  private CountDownLatch seriesEnd = new CountDownLatch(0);

  /** Whether a snapshot that is being made is to become the dump. */
  private volatile boolean isDumpOrdered;

  /** Whether this run has made an image. */
  private volatile boolean areOfThisRun;

  /**
   * Whether the command cannot go on, and continues from its newest image: a CRIU that failed in a
   * snapshot has ended it, or its GPU memory is lost.
   */
  private volatile boolean isLost;

  JobImages(
      GpuCheckpoints machine,
      SlurmJob job,
      JobRun.Settings settings,
      ImageStore store,
      JobEvents events,
      Consumer<String> log) {
    this.machine = machine;
    this.job = job;
    this.settings = settings;
    this.store = store;
    this.events = events;
    this.log = log;
  }

  /**
   * The dump has made one more image; removing the older ones must not delay a requeue. All images
   * in the store are of this job, whose pid is another one in each run if it is isolated.
   */
  void prune() {
    images().stream()
        .skip(KEPT_IMAGES)
        .forEach(
            image ->
                store
                    .remove(image.directory())
                    .ifPresent(why -> log.accept("kept image %s: it %s".formatted(image, why))));
  }

  /** Removes all images, as their command has ended. */
  void removeAll() {
    int removed = remove(store, log);
    if (removed > 0) {
      log.accept("%s images are removed; --keep-images keeps them".formatted(removed));
    }
  }

  /**
   * Removes all images of a store that are not used, those that a killed dump has left included.
   *
   * @param log receives a sentence about each image that stays
   * @return how many were removed
   */
  static int remove(ImageStore store, Consumer<String> log) {
    int removed = 0;
    for (StoredImage image : store.list()) {
      try {
        Optional<String> why = store.remove(image.directory());
        why.ifPresent(text -> log.accept("kept image %s: it %s".formatted(image, text)));
        removed += why.isEmpty() ? 1 : 0;
      } catch (GpuCheckpointException e) {
        log.accept("kept: " + e.getMessage());
      }
    }
    return removed;
  }

  /** The newest is the first. A killed dump leaves an incomplete image, which does not count. */
  private List<StoredImage> images() {
    return store.list().stream()
        .filter(image -> !image.directory().toString().endsWith(".partial"))
        .toList();
  }

  boolean areThere() {
    return !images().isEmpty();
  }

  /** Whether this run has made one of them. */
  boolean areOfThisRun() {
    return areOfThisRun;
  }

  /** Whether snapshots are made at an interval. */
  boolean areRepeated() {
    return snapshots != null;
  }

  /** Ends periodic snapshots, and the one that is being made. */
  void abandon() {
    if (snapshots != null) {
      snapshots.abandon();
      snapshots = null;
    }
  }

  /**
   * Waits for the end of a snapshot that is being made, which shows whether it has ended the
   * command. If it does not end before the limit or the next signal, it may have.
   */
  void awaitEnd(Duration limit) throws InterruptedException {
    long until = System.nanoTime() + limit.toNanos();
    while (!seriesEnd.await(RETRY.toMillis(), TimeUnit.MILLISECONDS)) {
      if (events.isSignalled() || System.nanoTime() - until >= 0) {
        log.accept("a snapshot does not end, and may have ended the command");
        lateKill = OptionalLong.of(System.nanoTime() + LATE_KILL.toNanos());
        return;
      }
    }
  }

  /**
   * Dumps the command, again and again while that may succeed. A snapshot that is being made
   * becomes the dump.
   *
   * @param begin when the signal came that asks for it
   * @param end when the time for it is over
   * @return whether the command is in an image, and has ended
   */
  boolean dump(LaunchedProcess process, long begin, long end) {
    return dump(process, begin, end, false);
  }

  /** The same; while the disk is full, this waits for space and the command runs. */
  boolean dumpWaitingForSpace(LaunchedProcess process, long begin, long end) {
    return dump(process, begin, end, true);
  }

  private boolean dump(LaunchedProcess process, long begin, long end, boolean waitsForSpace) {
    boolean isWaiting = false;
    Cancellation cancellation = dumpCancellation;
    ScheduledExecutorService timer = Executors.newSingleThreadScheduledExecutor();
    try {
      var unused =
          timer.schedule(cancellation::cancel, end - System.nanoTime(), TimeUnit.NANOSECONDS);
      while (true) {
        try {
          ProcessImage image = dumpOnce(process, cancellation);
          log.accept(
              "image %s is on disk %s after the signal"
                  .formatted(image.directory().getFileName(), JobRun.since(begin)));
          return true;
        } catch (ImageKeptException e) {
          return awaitKill(process, e, end);
        } catch (NoSuchProcessException e) {
          if (isInImage(e)) {
            log.accept(e.getMessage());
            return true;
          }
          Optional<LaunchedProcess.Exit> ended = process.awaitExit(JobRun.END_GRACE);
          log.accept(ended.isPresent() ? "the command has exited" : e.getMessage());
          return process.isDumped();
        } catch (RetryLaterException e) {
          log.accept("no dump yet: " + e.getMessage());
          boolean over = System.nanoTime() - end >= 0 || cancellation.isCancelled();
          if (over || process.awaitExit(RETRY).isPresent()) {
            return process.isDumped();
          }
        } catch (PoisonedProcessException e) {
          log.accept("no dump: " + e.getMessage());
          endLost(e.process());
          return false;
        } catch (GpuCheckpointException e) {
          boolean mayWait = waitsForSpace && isDiskFull(e) && process.exit().isEmpty();
          if (!isWaiting || !mayWait) {
            log.accept("no dump: " + e.getMessage());
          }
          if (!mayWait || !awaitSpace(process, end)) {
            return process.isDumped();
          }
          isWaiting = true;
        }
      }
    } finally {
      timer.shutdownNow();
      dumpCancellation = new Cancellation();
    }
  }

  private static boolean isDiskFull(GpuCheckpointException e) {
    return e instanceof ImageException image && image.reason() == ImageException.Reason.DISK_FULL;
  }

  /** Returns false if the command, the grace or the wait for it is over. */
  private boolean awaitSpace(LaunchedProcess process, long end) {
    return process.awaitExit(SPACE_RETRY).isEmpty()
        && System.nanoTime() - end < 0
        && !events.isSignalled();
  }

  private ProcessImage dumpOnce(LaunchedProcess process, Cancellation cancellation) {
    RepeatedSnapshots series = snapshots;
    snapshots = null;
    isDumpOrdered = true;
    try {
      return series != null
          ? series.dump()
          : store.dump(process.process(), dumpOptions(cancellation));
    } catch (FixAndRetryException e) {
      if (e.reason() != FixAndRetryException.Reason.WRONG_STATE) {
        throw e;
      }
      // A user has suspended it, or it could not be resumed after a snapshot.
      log.accept(e.getMessage());
      SuspendOptions options = SuspendOptions.builder().cancellation(cancellation).build();
      return store.dump(
          machine.suspend(process.identity().pid(), options), dumpOptions(cancellation));
    }
  }

  /**
   * Waits until the end of the grace, or until the next signal, for a process that CRIU was allowed
   * to kill when it failed. The image is complete.
   *
   * @return whether it was killed; otherwise it was not dumped
   */
  private boolean awaitKill(LaunchedProcess process, ImageKeptException failure, long end) {
    log.accept(failure.getMessage());
    expectLateKill(end);
    Optional<LaunchedProcess.Exit> exit = process.exit();
    while (exit.isEmpty() && System.nanoTime() - end < 0 && !events.isSignalled()) {
      exit = process.awaitExit(RETRY);
    }
    return exit.filter(this::isLateKill).isPresent();
  }

  private void expectLateKill(long graceEnd) {
    areOfThisRun = true;
    lateKill = OptionalLong.of(graceEnd + LATE_KILL.toNanos());
  }

  /**
   * Whether the command continues from its newest image after this end, which was that of a CRIU
   * that had failed, or of a command whose GPU memory was lost.
   */
  boolean continueAfter(LaunchedProcess.Exit exit) {
    return (isLost && exit.code().isEmpty()) || isLateKill(exit);
  }

  /** Ends a command whose GPU memory is lost, as the driver never brings it back. */
  private void endLost(PoisonedProcess lost) {
    try {
      if (!areThere()) {
        return; // nothing continues it, and its owner may look at it
      }
      if (lost.fallbackImage().isPresent()) {
        areOfThisRun = true;
      }
      isLost = true;
      lost.end();
    } catch (StaleStateException e) {
      isLost = false; // it has come back all the same
      log.accept("the command is not ended: " + e.getMessage());
    } catch (GpuCheckpointException e) {
      log.accept("the command has not ended yet: " + e.getMessage());
    }
  }

  /** Ends a command whose GPU memory was lost elsewhere, as when a user resumed it. */
  private void endIfLost(LaunchedProcess process) {
    try {
      if (machine.inspect(process.identity().pid()) instanceof PoisonedProcess lost) {
        endLost(lost);
      }
    } catch (GpuCheckpointException e) {
      log.accept("whether the command can be resumed is not known: " + e.getMessage());
    }
  }

  private static boolean isInImage(Throwable why) {
    return why instanceof NoSuchProcessException gone
        && gone.failure().fate() == Fate.GONE_AND_DURABLE;
  }

  private boolean isLateKill(LaunchedProcess.Exit exit) {
    OptionalLong end = lateKill;
    return end.isPresent()
        && System.nanoTime() - end.getAsLong() < 0
        && exit.code().isEmpty()
        && exit.signal().orElse(SIGKILL) == SIGKILL;
  }

  /**
   * Resumes a command that a user has suspended, or that a failed dump could not resume.
   *
   * @return a sentence with the outcome
   */
  String resume(LaunchedProcess process) {
    try {
      RunningProcess unused = machine.resume(process.identity().pid());
    } catch (NotCudaProcessException e) {
      // It does not use CUDA, so it was not suspended.
    } catch (GpuCheckpointException e) {
      if (e instanceof FixAndRetryException || e instanceof PoisonedProcessException) {
        endIfLost(process);
      }
      return "the command is not resumed (%s)".formatted(e.getMessage());
    }
    return "the command continues";
  }

  /** Warns soon if the command cannot be dumped. */
  void beginFirstCheck(LaunchedProcess process) {
    FirstCheck.begin(
        machine, process, store.directory().resolve("image"), dumpOptions(new Cancellation()), log);
  }

  private DumpOptions dumpOptions(Cancellation cancellation) {
    return DumpOptions.builder().label(job.name()).cancellation(cancellation).build();
  }

  /** Begins with periodic snapshots, if the user wants them and none is being made any more. */
  void repeat(LaunchedProcess process) {
    if (settings.every() == null || snapshots != null || seriesEnd.getCount() > 0) {
      return;
    }
    Listener listener = new Listener(process);
    try {
      snapshots =
          process
              .process()
              .repeatSnapshots(
                  SnapshotPlan.into(store)
                      .every(settings.every())
                      .retention(RetentionPolicy.builder().keepLast(KEPT_IMAGES).build())
                      .options(dumpOptions(dumpCancellation))
                      .patience(settings.grace())
                      .listener(listener)
                      .build());
      isDumpOrdered = false;
      seriesEnd = listener.end;
    } catch (GpuCheckpointException e) {
      log.accept("periodic snapshots cannot begin yet: " + e.getMessage());
    }
  }

  /** Writes what happens to periodic snapshots. */
  private final class Listener implements SnapshotListener {

    private final LaunchedProcess process;
    private final CountDownLatch end = new CountDownLatch(1);

    /** The message of the last failure, which is not repeated; empty after a success. */
    private String lastFailure = "";

    private Listener(LaunchedProcess process) {
      this.process = process;
    }

    @Override
    public void made(ProcessImage image) {
      areOfThisRun = true;
      lastFailure = "";
      log.accept("snapshot " + image.directory().getFileName());
      if (process.isDumped()) {
        events.ended(); // it has become the dump, perhaps after the grace
      } else if (isDumpOrdered && process.exit().isPresent()) {
        isLost = true; // it has become the dump when CRIU had ended the command
      }
    }

    @Override
    public void failed(Throwable why) {
      if (isOrHas(ImageKeptException.class, why)) {
        expectLateKill(System.nanoTime());
      } else if (isInImage(why)) {
        areOfThisRun = true;
        isLost = true;
      }
      String text = String.valueOf(why.getMessage());
      if (!text.equals(lastFailure)) {
        log.accept("a snapshot failed: " + text);
      }
      lastFailure = text;
      if (why instanceof PoisonedProcessException lost) {
        endLost(lost.process());
      }
    }

    /** The failure of a resume has what CRIU has failed with before. */
    private static boolean isOrHas(Class<?> type, Throwable why) {
      return Stream.concat(Stream.of(why), Arrays.stream(why.getSuppressed()))
          .anyMatch(type::isInstance);
    }

    /** A snapshot that failed for want of memory may be resumed later, and lost then. */
    @Override
    public void skipped(SkippedSnapshot snapshot) {
      if (snapshot.reason() == SkippedSnapshot.Reason.SUSPENDED) {
        endIfLost(process);
      }
    }

    @Override
    public void ended(boolean closed) {
      end.countDown();
    }
  }
}
