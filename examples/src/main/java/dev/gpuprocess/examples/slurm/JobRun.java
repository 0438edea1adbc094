package dev.gpuprocess.examples.slurm;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.ImageStore;
import dev.gpuprocess.LaunchedProcess;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.examples.slurm.JobEvents.Event;
import dev.gpuprocess.examples.slurm.JobEvents.Signalled;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Set;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * One run of a Slurm job: launches its command, or restores it from its newest image, and on a
 * preemption dumps it and puts the job back into the queue. The next run, on whichever node,
 * continues. Used by one thread.
 */
public final class JobRun {

  /** The restore of the job has failed on too many nodes, or no image can be used. */
  public static final int NOT_RESTORED = 70;

  /** The job is in the queue again; Slurm does not look at this code then. */
  public static final int REQUEUED = 75;

  /** The reasons for which another node cannot restore the image either. */
  private static final Set<ImageException.Reason> IMAGE_IS_BAD =
      Set.of(
          ImageException.Reason.CORRUPT,
          ImageException.Reason.FORMAT,
          ImageException.Reason.MISMATCH,
          ImageException.Reason.MISSING,
          ImageException.Reason.NOT_TRUSTED,
          ImageException.Reason.PLUGIN);

  private static final int SIGNALLED = 128;
  private static final int SIGTERM = 15;
  private static final int SIGUSR1 = 10;

  /** How a command ends, or a shell for it, that gets the signal of a preemption itself. */
  private static final Set<Integer> ANNOUNCED = Set.of(SIGNALLED + SIGUSR1, SIGNALLED + SIGTERM);

  /**
   * The command was the child of another process, such as sudo, which has not said how it ended.
   */
  private static final int UNKNOWN = 1;

  /** Of KillWait: what this process and its dump need to end. */
  private static final Duration RESERVE = Duration.ofSeconds(3);

  private static final Duration DEFAULT_KILL_WAIT = Duration.ofSeconds(30);

  /** As long as a second controller needs to take over ({@code SlurmctldTimeout}), and more. */
  private static final Duration CONTROLLER_AWAY = Duration.ofMinutes(5);

  static final Duration END_GRACE = Duration.ofSeconds(2);
  private static final Duration ALWAYS = Duration.ofDays(3650);

  private final GpuCheckpoints machine;
  private final SlurmJob job;
  private final Scontrol scontrol;
  private final Settings settings;
  private final JobEvents events;
  private final Consumer<String> log;
  private final JobDirectory directory;
  private final JobQueue queue;
  private final JobImages images;
  private final JobStart start;
  private volatile Duration killWait = DEFAULT_KILL_WAIT;
  private boolean terminated;

  /**
   * What the user of a job sets.
   *
   * @param images the directory for all jobs, on a disk that all nodes share
   * @param every the interval of periodic snapshots; null for none
   * @param grace the time for a dump, from the signal on
   * @param attempts on how many nodes a restore may fail
   * @param isolated whether the command gets namespaces of its own, in which its pids are free
   * @param keepsImages whether the images stay when the end of the command is recorded
   * @param command the program and its arguments
   */
  public record Settings(
      Path images,
      @Nullable Duration every,
      Duration grace,
      int attempts,
      boolean isolated,
      boolean keepsImages,
      List<String> command) {}

  /**
   * Prepares a run. The directory of the job is made, or read.
   *
   * @param machine the drivers
   * @param job the job
   * @param scontrol the controller
   * @param settings what the user has set
   * @param events the signals
   * @param log receives a sentence about each event
   * @throws ImageException if the directory of the job cannot be made, or if other users could have
   *     written it
   */
  public JobRun(
      GpuCheckpoints machine,
      SlurmJob job,
      Scontrol scontrol,
      Settings settings,
      JobEvents events,
      Consumer<String> log) {
    this.machine = machine;
    this.job = job;
    this.scontrol = scontrol;
    this.settings = settings;
    this.events = events;
    this.log = log;
    List<Path> stale = new ArrayList<>();
    this.directory = JobDirectory.open(settings.images(), job, stale);
    stale.forEach(
        path -> log.accept("the images of an earlier job " + job.id() + " are now in " + path));
    this.queue = new JobQueue(job, scontrol, directory, events, log, CONTROLLER_AWAY);
    ImageStore store = machine.store(directory.images());
    this.start = new JobStart(machine, job, settings, directory, store, log);
    this.images = new JobImages(machine, job, settings, store, events, log);
  }

  /**
   * Runs the command until it ends, or the job is requeued.
   *
   * @return the exit code of the command, 128 and the signal that ended it, {@link #REQUEUED} or
   *     {@link #NOT_RESTORED}
   * @throws GpuCheckpointException if the command cannot be launched, or if the record of its end
   *     cannot be read
   * @throws InterruptedException if the thread is interrupted; the command ends with this JVM
   */
  public int run() throws InterruptedException {
    try {
      return runToEnd();
    } finally {
      setReady(true);
    }
  }

  private int runToEnd() throws InterruptedException {
    OptionalInt finished = directory.finished();
    if (finished.isPresent()) {
      log.accept(
          "the command of this job has ended before, with %s; to run it again, remove %s"
              .formatted(finished.getAsInt(), directory));
      removeImages();
      return finished.getAsInt();
    }
    LaunchedProcess process;
    if (images.areThere()) {
      try {
        process = start.restore();
        record("the failed restores are not forgotten", directory::clearFailedNodes);
      } catch (GpuCheckpointException e) {
        return restoreFailed(e);
      }
    } else {
      process = start.launch();
    }
    follow(process);
    int code = serve(process);
    // Without an image of this run, the one that it was restored from may be the only good one.
    if (code == REQUEUED && (process.isDumped() || images.areOfThisRun())) {
      record("older images are not removed", images::prune);
    }
    return code;
  }

  /** A job whose end is recorded runs nothing any more. */
  private void removeImages() {
    if (!settings.keepsImages()) {
      record("images are not removed", images::removeAll);
    }
  }

  /** The images stay: the command never starts again from its beginning while there are any. */
  private int restoreFailed(GpuCheckpointException why) throws InterruptedException {
    log.accept(
        "job %s cannot be restored on %s: %s".formatted(job.id(), job.node(), why.getMessage()));
    if (why instanceof ImageException image && IMAGE_IS_BAD.contains(image.reason())) {
      log.accept("the command is not started again from its beginning; see " + directory.images());
      return NOT_RESTORED;
    }
    List<String> failed = addFailedNode();
    if (failed.size() >= settings.attempts()) {
      record("the failed restores are not forgotten", directory::clearFailedNodes);
      log.accept(
          "the restore has failed %s times, on %s; mend the cause, then: scontrol requeue %s"
              .formatted(failed.size(), String.join(", ", failed), job.id()));
      return NOT_RESTORED;
    }
    setReady(true);
    long end = System.nanoTime() + settings.grace().toNanos();
    if (!queue.requeueAlone(scontrol.job(job), end)) {
      return NOT_RESTORED;
    }
    queue.exclude(failed);
    queue.awaitTerm();
    return REQUEUED;
  }

  /** Returns the nodes that failed: at least this one, even if the records cannot be used. */
  private List<String> addFailedNode() {
    List<String> failed = new ArrayList<>();
    record(
        "the nodes that failed before are not known", () -> failed.addAll(directory.failedNodes()));
    failed.add(job.node());
    record("the node is not recorded", () -> directory.recordFailedNodes(failed));
    return failed;
  }

  /** A full disk does not change how this run ends. */
  private void record(String otherwise, Runnable step) {
    try {
      step.run();
    } catch (GpuCheckpointException e) {
      log.accept("%s: %s".formatted(otherwise, e.getMessage()));
    }
  }

  /**
   * Tells the other tasks of the step whether a requeue interrupts a dump of this one. It does not
   * if the command is in an image, has ended, or cannot be dumped.
   */
  private void setReady(boolean isReady) {
    if (!job.others().isEmpty()) {
      record(
          "the other tasks may wait for this one, or not",
          isReady ? () -> directory.recordReady(job.restarts()) : directory::clearReady);
    }
  }

  private void follow(LaunchedProcess process) {
    Thread follower =
        new Thread(
            () -> {
              if (process.awaitExit(ALWAYS).isPresent()) {
                events.ended();
              }
            },
            "gpuprocess slurm exit");
    follower.setDaemon(true);
    follower.start();
    Thread preparation =
        new Thread(
            () -> {
              killWait = scontrol.killWait().orElse(DEFAULT_KILL_WAIT);
              try {
                machine.prepare();
              } catch (GpuCheckpointException e) {
                log.accept("a dump on this node would fail: " + e.getMessage());
              }
            },
            "gpuprocess slurm prepare");
    preparation.setDaemon(true);
    preparation.start();
    images.repeat(process);
    images.beginFirstCheck(process);
    JobRecord record = scontrol.job(job);
    if (!record.canBeRequeued()) {
      log.accept(
          "the job cannot be requeued: submit it with --requeue"
              + (record.mayBeAllowedToRequeue()
                  ? "; if it is dumped, scontrol update sets Requeue=1"
                  : ""));
    }
    if (record.isPreempted()) {
      events.signalled("USR1"); // it came before this process took signals
    }
  }

  private int serve(LaunchedProcess process) throws InterruptedException {
    while (true) {
      Duration every = settings.every();
      Optional<Event> event = events.await(every == null || images.areRepeated() ? ALWAYS : every);
      if (event.isEmpty()) {
        images.repeat(process);
        continue;
      }
      if (!(event.get() instanceof Signalled signal)) {
        return ended(process);
      }
      setReady(false);
      JobRecord record = scontrol.job(job);
      log.accept("SIG%s; the job is %s".formatted(signal.name(), record.state()));
      // Tasks without a signal of their own get SIGTERM when a preemption begins.
      boolean isEnd = signal.name().equals("TERM") && !(record.isRunning() && record.isPreempted());
      OptionalInt code =
          isEnd ? terminate(process, record, signal) : preempt(process, record, signal);
      if (code.isPresent()) {
        return code.getAsInt();
      }
    }
  }

  /** A signal of Slurm may reach the whole tree, so an end that follows one is not its own. */
  private int ended(LaunchedProcess process) throws InterruptedException {
    images.abandon();
    if (process.exitCode().isEmpty()) {
      images.awaitEnd(CONTROLLER_AWAY); // a snapshot may have ended it
    }
    if (process.isDumped()) {
      return endedInImage(scontrol.job(job), "the snapshot has become the dump");
    }
    LaunchedProcess.Exit exit = process.exit().orElseThrow();
    int code =
        exit.signal().isPresent()
            ? SIGNALLED + exit.signal().getAsInt()
            : exit.code().orElse(UNKNOWN);
    boolean isAnnounced = ANNOUNCED.contains(code);
    JobRecord record = scontrol.job(job);
    if (isAnnounced && !record.isKnown()) {
      record = queue.awaitRecord();
    }
    if (images.continueAfter(exit) && (record.isRunning() || !record.isKnown())) {
      return endedInImage(record, "the command was ended because its image takes its place");
    }
    if (isAnnounced && record.isRunning() && record.isPreempted()) {
      return endedInImage(
          record, "the signal of the preemption has ended the command, with " + code);
    }
    if (record.hasReachedTimeLimit() && images.areOfThisRun()) {
      log.accept("the command has ended at the time limit, with " + code);
      boolean unused = queue.requeueAfterLimit(record);
      return REQUEUED;
    }
    boolean own =
        record.isKnown()
            ? record.isRunning()
            : exit.code().isPresent() && !isAnnounced && !terminated;
    if (own) {
      log.accept("the command has ended, with " + code);
      record(
          "its end is not recorded, and a job that is requeued runs it again",
          () -> {
            directory.recordFinished(code);
            removeImages();
          });
    } else {
      log.accept(
          "the command has ended, with %s, while the job is %s: not recorded as its end"
              .formatted(code, record.state()));
    }
    return code;
  }

  private int endedInImage(JobRecord record, String why) throws InterruptedException {
    log.accept(why);
    setReady(true);
    if (queue.requeueAlone(record, System.nanoTime() + settings.grace().toNanos())) {
      queue.awaitTerm();
    }
    return REQUEUED;
  }

  /** A preemption, the time limit ahead, or {@code scancel -b -s USR1} of the user. */
  private OptionalInt preempt(LaunchedProcess process, JobRecord record, Signalled signal)
      throws InterruptedException {
    if (!images.dumpWaitingForSpace(process, signal.nanos(), graceEnd(record, signal))) {
      if (process.exit().isEmpty()) {
        setReady(true); // otherwise when its end is recorded
        if (!events.isSignalled()) { // the next signal may leave no time for that
          log.accept(images.resume(process) + "; the images before are kept");
          images.repeat(process);
        }
      }
      return OptionalInt.empty();
    }
    if (record.isRequeued()) {
      queue.awaitTerm();
      return OptionalInt.of(REQUEUED);
    }
    return OptionalInt.of(requeue(signal.nanos() + settings.grace().toNanos()));
  }

  /** Slurm itself requeues only at the end of GraceTime, and not for a time limit. */
  private int requeue(long end) throws InterruptedException {
    setReady(true);
    if (queue.awaitOthers(end) && queue.requeue(end)) {
      queue.awaitTerm();
    }
    return REQUEUED;
  }

  private OptionalInt terminate(LaunchedProcess process, JobRecord record, Signalled signal)
      throws InterruptedException {
    terminated = true;
    if (!record.isKnown()) {
      return terminateUnknown(process, signal);
    }
    if (record.isRequeued() || record.hasReachedTimeLimit()) {
      if (images.areOfThisRun() && record.hasReachedTimeLimit()) {
        boolean unused = queue.tryAfterLimit(record); // the dump may last until SIGKILL
      }
      boolean isDumped = images.dump(process, signal.nanos(), killEnd(signal));
      // Without an image of this run, the next one would do the same again until its limit.
      boolean hasImage = isDumped || images.areOfThisRun();
      if (hasImage || record.isRequeued()) {
        if (hasImage && record.hasReachedTimeLimit()) {
          boolean unused = queue.requeueAfterLimit(queue.awaitRecord());
        }
        endAll(process);
        return OptionalInt.of(REQUEUED);
      }
    }
    endAll(process);
    log.accept("the command was ended with its job");
    return OptionalInt.of(SIGNALLED + SIGTERM);
  }

  /**
   * The controller did not answer, so the job may be requeued, preempted, cancelled or at its
   * limit. A dump serves each, and does not harm a cancelled one. Without a dump, the command is
   * left to Slurm while its job runs, and in any case if this run has made no snapshot.
   */
  private OptionalInt terminateUnknown(LaunchedProcess process, Signalled signal)
      throws InterruptedException {
    boolean isDumped = images.dump(process, signal.nanos(), killEnd(signal));
    JobRecord record = isDumped || images.areOfThisRun() ? queue.awaitRecord() : scontrol.job(job);
    if (!isDumped && (record.isRunning() || !record.isKnown() || !images.areOfThisRun())) {
      setReady(true);
      log.accept(images.resume(process) + ", and is left to Slurm");
      if (process.exit().isPresent() || process.isDumped()) {
        events.ended(); // the wait has dropped it
      }
      return OptionalInt.empty();
    }
    if (record.isRunning()) {
      if (record.isPreempted()) {
        return OptionalInt.of(requeue(signal.nanos() + settings.grace().toNanos()));
      }
      log.accept("the signal was that of a user; the image is kept");
      return OptionalInt.of(SIGNALLED + SIGTERM);
    }
    boolean unused = queue.requeueAfterLimit(record);
    endAll(process);
    return OptionalInt.of(REQUEUED);
  }

  private void endAll(LaunchedProcess process) {
    images.abandon();
    Optional<LaunchedProcess.Exit> unused = process.end(END_GRACE);
  }

  /** Returns when a dump that began with SIGTERM must be over, so that SIGKILL does not end it. */
  private long killEnd(Signalled signal) {
    return signal.nanos() + Math.min(settings.grace().toNanos(), killWait.minus(RESERVE).toNanos());
  }

  /**
   * Returns when a dump must be over: after the grace, or in time for a requeue if Slurm ends the
   * job before. A batch script has KillWait then, and tasks of {@code srun} have not.
   */
  private long graceEnd(JobRecord record, Signalled signal) {
    Duration more = job.others().isEmpty() ? killWait : Duration.ZERO;
    return JobQueue.beforeItsEnd(record, more, signal.nanos() + settings.grace().toNanos());
  }

  static String since(long nanos) {
    return String.format(Locale.ROOT, "%.1f s", (System.nanoTime() - nanos) / 1e9);
  }
}
