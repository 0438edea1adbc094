package dev.gpuprocess.examples.slurm;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.ImageStore;
import dev.gpuprocess.LaunchedProcess;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.RepeatedSnapshots;
import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.SnapshotListener;
import dev.gpuprocess.SnapshotPlan;
import dev.gpuprocess.cuda.GpuMap;
import dev.gpuprocess.cuda.GpuReading;
import dev.gpuprocess.cuda.GpuUuid;
import dev.gpuprocess.error.FixAndRetryException;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.error.ImageKeptException;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.error.ProcessUnfitException;
import dev.gpuprocess.error.RetryLaterException;
import dev.gpuprocess.examples.slurm.JobEvents.Event;
import dev.gpuprocess.examples.slurm.JobEvents.Signalled;
import dev.gpuprocess.image.StoredImage;
import dev.gpuprocess.options.Cancellation;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.LaunchOptions;
import dev.gpuprocess.options.RestoreOptions;
import dev.gpuprocess.options.ResumeOptions;
import dev.gpuprocess.options.RetentionPolicy;
import dev.gpuprocess.options.SuspendOptions;
import java.io.IOException;
import java.lang.ProcessBuilder.Redirect;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Set;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
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
  private static final int SIGKILL = 9;
  private static final int SIGTERM = 15;

  /**
   * The command was the child of another process, such as sudo, which has not said how it ended.
   */
  private static final int UNKNOWN = 1;

  private static final int KEPT_IMAGES = 2;

  /** Of KillWait: what this process and its dump need to end. */
  private static final Duration RESERVE = Duration.ofSeconds(3);

  private static final Duration DEFAULT_KILL_WAIT = Duration.ofSeconds(30);
  private static final Duration END_GRACE = Duration.ofSeconds(2);
  private static final Duration RETRY = Duration.ofMillis(100);
  private static final Duration MEMORY_WAIT = Duration.ofMinutes(2);
  private static final Duration ALWAYS = Duration.ofDays(3650);

  private final GpuCheckpoints machine;
  private final SlurmJob job;
  private final Scontrol scontrol;
  private final Settings settings;
  private final JobEvents events;
  private final Consumer<String> log;
  private final JobDirectory directory;
  private final JobQueue queue;
  private final ImageStore store;
  private volatile Duration killWait = DEFAULT_KILL_WAIT;
  private Cancellation dumpCancellation = new Cancellation();
  private boolean terminated;

  /** Whether a CRIU whose dump has failed may kill the command. */
  private boolean mayBeKilled;

  private @Nullable RepeatedSnapshots snapshots;

  /**
   * What the user of a job sets.
   *
   * @param images the directory for all jobs, on a disk that all nodes share
   * @param every the interval of periodic snapshots; null for none
   * @param grace the time for a dump, from the signal on
   * @param attempts on how many nodes a restore may fail
   * @param isolated whether the command gets namespaces of its own, in which its pids are free
   * @param command the program and its arguments
   */
  public record Settings(
      Path images,
      @Nullable Duration every,
      Duration grace,
      int attempts,
      boolean isolated,
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
    this.queue = new JobQueue(job, scontrol, directory, events, log);
    this.store = machine.store(directory.images());
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
      return finished.getAsInt();
    }
    LaunchedProcess process;
    if (hasImages()) {
      try {
        process = restore();
      } catch (GpuCheckpointException e) {
        return restoreFailed(e);
      }
    } else {
      process = launch();
    }
    follow(process);
    int code = serve(process);
    if (snapshots != null) {
      snapshots.abandon();
    }
    if (code == REQUEUED) {
      record("older images are not removed", this::prune);
    }
    return code;
  }

  /**
   * The dump has made one more image; removing the older ones must not delay a requeue. All images
   * in the store are of this job, whose pid is another one in each run if it is isolated.
   */
  private void prune() {
    images().stream()
        .skip(KEPT_IMAGES)
        .forEach(
            image ->
                store
                    .remove(image.directory())
                    .ifPresent(why -> log.accept("kept image %s: it %s".formatted(image, why))));
  }

  /** The newest is the first. A killed dump leaves an incomplete image, which does not count. */
  private List<StoredImage> images() {
    return store.list().stream()
        .filter(image -> !image.directory().toString().endsWith(".partial"))
        .toList();
  }

  private boolean hasImages() {
    return !images().isEmpty();
  }

  private LaunchedProcess launch() {
    List<String> command = settings.command();
    LaunchOptions.Builder options =
        LaunchOptions.builder(
                command.get(0), command.subList(1, command.size()).toArray(String[]::new))
            .isolated(settings.isolated());
    Path out = outputOf(1);
    options.output(Redirect.appendTo(out.toFile()));
    Path err = outputOf(2);
    if (!err.equals(out)) {
      options.error(Redirect.appendTo(err.toFile()));
    }
    LaunchedProcess process = machine.launch(options.build());
    log.accept(
        "job %s launched process %s on %s%s"
            .formatted(
                job.id(),
                process.identity().pid(),
                job.node(),
                job.restarts() > 0 ? ", as there is no image of its earlier runs" : ""));
    return process;
  }

  /** A file can be opened again on another node; a pipe or a terminal cannot. */
  private Path outputOf(int descriptor) {
    try {
      Path target = Files.readSymbolicLink(Path.of("/proc/self/fd/" + descriptor));
      if (target.isAbsolute() && Files.isRegularFile(target)) {
        return target;
      }
    } catch (IOException e) {
      log.accept("descriptor %s cannot be read: %s".formatted(descriptor, e.getMessage()));
    }
    log.accept(
        "descriptor %s is not a file: the output of the command goes to %s"
            .formatted(descriptor, directory.output()));
    return directory.output();
  }

  private LaunchedProcess restore() {
    long began = System.nanoTime();
    List<ProcessImage> used = new ArrayList<>();
    LaunchedProcess process =
        store.withNewest(
            image -> {
              used.add(image);
              return image.launch(
                  RestoreOptions.builder().expectLabel(job.name()).build(),
                  ResumeOptions.builder()
                      .gpus(GpuMap.automatic(gpus()))
                      .waitForMemory(MEMORY_WAIT)
                      .build());
            },
            skipped -> log.accept("skipped " + skipped));
    record("the failed restores are not forgotten", directory::clearFailedNodes);
    log.accept(
        "job %s restored process %s on %s from %s in %s"
            .formatted(
                job.id(),
                process.identity().pid(),
                job.node(),
                used.get(used.size() - 1).directory().getFileName(),
                since(began)));
    return process;
  }

  /**
   * Other GPUs of the node may be those of other jobs, even where they have room. CUDA numbers the
   * GPUs that this process sees, and so does NVML.
   */
  private List<GpuUuid> gpus() {
    List<GpuUuid> own = new ArrayList<>();
    GpuReading seen =
        machine.gpus().read().orElseGet(() -> new GpuReading(List.of(), List.of("no NVML")));
    for (int i = 0; i < seen.gpus().size(); i++) {
      GpuUuid uuid = seen.gpus().get(i).uuid();
      boolean isNumbered = seen.unreadable().isEmpty() && job.gpus().contains(Integer.toString(i));
      if (isNumbered || job.gpus().contains(uuid.text())) {
        own.add(uuid);
      }
    }
    if (own.isEmpty() && !job.gpus().isEmpty()) {
      log.accept("may use each GPU that it sees, as NVML does not know those of the job");
    }
    return own;
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
    // Other tasks are being dumped only then.
    boolean isPreempted = scontrol.job(job).isPreempted();
    if ((isPreempted && !queue.awaitOthers(end)) || !queue.requeue(end)) {
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
    repeatSnapshots(process);
    JobRecord record = scontrol.job(job);
    if (!record.canBeRequeued()) {
      log.accept("the job cannot be requeued: submit it with --requeue");
    }
    if (record.isPreempted()) {
      events.signalled("USR1"); // it came before this process took signals
    }
  }

  private int serve(LaunchedProcess process) throws InterruptedException {
    while (true) {
      Event event = events.take();
      if (!(event instanceof Signalled signal)) {
        return ended(process);
      }
      boolean isTerm = signal.name().equals("TERM");
      if (!isTerm) {
        setReady(false);
      }
      JobRecord record = scontrol.job(job);
      log.accept("SIG%s; the job is %s".formatted(signal.name(), record.state()));
      OptionalInt code =
          isTerm ? terminate(process, record, signal) : preempt(process, record, signal);
      if (code.isPresent()) {
        return code.getAsInt();
      }
    }
  }

  /**
   * Slurm's SIGTERM reaches the whole tree, so an end in a job that does not run is not its own.
   */
  private int ended(LaunchedProcess process) {
    LaunchedProcess.Exit exit = process.exit().orElseThrow();
    int code =
        exit.signal().isPresent()
            ? SIGNALLED + exit.signal().getAsInt()
            : exit.code().orElse(UNKNOWN);
    JobRecord record = scontrol.job(job);
    boolean own = record.isKnown() ? record.isRunning() : exit.code().isPresent() && !terminated;
    if (own && !isKilledByCriu(exit)) {
      log.accept("the command has ended, with " + code);
      record(
          "its end is not recorded, and a job that is requeued runs it again",
          () -> directory.recordFinished(code));
    } else {
      log.accept(
          "the command has ended, with %s, while the job is %s: not recorded as its end"
              .formatted(code, record.state()));
    }
    return code;
  }

  /** A preemption, the time limit ahead, or {@code scancel -b -s USR1} of the user. */
  private OptionalInt preempt(LaunchedProcess process, JobRecord record, Signalled signal)
      throws InterruptedException {
    boolean isDumped = dump(process, signal, settings.grace());
    if (isDumped || process.exit().isEmpty()) {
      setReady(true); // otherwise when its end is recorded
    }
    if (!isDumped) {
      if (process.exit().isEmpty()) {
        log.accept(resume(process) + "; the images before are kept");
        repeatSnapshots(process);
      }
      return OptionalInt.empty();
    }
    // Slurm itself requeues only at the end of GraceTime, and not for a time limit.
    long end = signal.nanos() + settings.grace().toNanos();
    if (record.isRequeued() || (queue.awaitOthers(end) && queue.requeue(end))) {
      queue.awaitTerm();
    }
    return OptionalInt.of(REQUEUED);
  }

  /**
   * If the controller does not answer, the job may be requeued or cancelled. A dump serves the
   * first and does not harm the second; a command that cannot be dumped is left to Slurm.
   */
  private OptionalInt terminate(LaunchedProcess process, JobRecord record, Signalled signal)
      throws InterruptedException {
    terminated = true;
    if (!record.isKnown()) {
      if (!dump(process, signal, killWait())) {
        log.accept(resume(process) + ", and is left to Slurm");
        return OptionalInt.empty();
      }
      queue.requeueAfterLimit(scontrol.job(job));
      return OptionalInt.of(REQUEUED);
    }
    if (record.isRequeued() || record.hasReachedTimeLimit()) {
      boolean isDumped = dump(process, signal, killWait());
      if (isDumped) {
        queue.requeueAfterLimit(record);
      }
      if (isDumped || record.isRequeued()) {
        endAll(process);
        return OptionalInt.of(REQUEUED);
      }
    }
    endAll(process);
    log.accept("the command was ended with its job");
    return OptionalInt.of(SIGNALLED + SIGTERM);
  }

  private void endAll(LaunchedProcess process) {
    if (snapshots != null) {
      snapshots.abandon();
      snapshots = null;
    }
    Optional<LaunchedProcess.Exit> unused = process.end(END_GRACE);
  }

  /** Returns the time from SIGTERM to SIGKILL, less what the end of this process takes. */
  private Duration killWait() {
    Duration left = killWait.minus(RESERVE);
    return left.compareTo(settings.grace()) < 0 ? left : settings.grace();
  }

  /** Returns whether the command is in an image, and has ended. */
  private boolean dump(LaunchedProcess process, Signalled signal, Duration limit) {
    long end = signal.nanos() + limit.toNanos();
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
                  .formatted(image.directory().getFileName(), since(signal.nanos())));
          return true;
        } catch (ImageKeptException e) {
          return awaitKill(process, e, end);
        } catch (NoSuchProcessException e) {
          Optional<LaunchedProcess.Exit> ended = process.awaitExit(END_GRACE);
          log.accept(ended.isPresent() ? "the command has exited" : e.getMessage());
          return false;
        } catch (RetryLaterException e) {
          log.accept("no dump yet: " + e.getMessage());
          boolean over = System.nanoTime() - end >= 0 || cancellation.isCancelled();
          if (over || process.awaitExit(RETRY).isPresent()) {
            return false;
          }
        } catch (GpuCheckpointException e) {
          log.accept("no dump: " + e.getMessage());
          return false;
        }
      }
    } finally {
      timer.shutdownNow();
      dumpCancellation = new Cancellation();
    }
  }

  private ProcessImage dumpOnce(LaunchedProcess process, Cancellation cancellation) {
    RepeatedSnapshots series = snapshots;
    snapshots = null;
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
   * Waits until the end of the grace for a process that CRIU was allowed to kill when it failed.
   * The image is complete.
   *
   * @return whether it was killed; otherwise it was not dumped
   */
  private boolean awaitKill(LaunchedProcess process, ImageKeptException failure, long end) {
    log.accept(failure.getMessage());
    mayBeKilled = true;
    Duration left = Duration.ofNanos(Math.max(0, end - System.nanoTime()));
    return process.awaitExit(left).filter(this::isKilledByCriu).isPresent();
  }

  private boolean isKilledByCriu(LaunchedProcess.Exit exit) {
    return mayBeKilled && exit.code().isEmpty() && exit.signal().orElse(SIGKILL) == SIGKILL;
  }

  /**
   * Resumes a command that a user has suspended, or that a failed dump could not resume.
   *
   * @return a sentence with the outcome
   */
  private String resume(LaunchedProcess process) {
    try {
      RunningProcess unused = machine.resume(process.identity().pid());
    } catch (ProcessUnfitException e) {
      // It does not use CUDA, so it was not suspended.
    } catch (GpuCheckpointException e) {
      return "the command is not resumed (%s)".formatted(e.getMessage());
    }
    return "the command continues";
  }

  private DumpOptions dumpOptions(Cancellation cancellation) {
    return DumpOptions.builder().label(job.name()).cancellation(cancellation).build();
  }

  private void repeatSnapshots(LaunchedProcess process) {
    if (settings.every() == null || snapshots != null) {
      return;
    }
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
                      .listener(new Listener())
                      .build());
    } catch (GpuCheckpointException e) {
      log.accept("there are no periodic snapshots: " + e.getMessage());
    }
  }

  private static String since(long nanos) {
    return String.format(Locale.ROOT, "%.1f s", (System.nanoTime() - nanos) / 1e9);
  }

  /** Writes what happens to periodic snapshots. */
  private final class Listener implements SnapshotListener {

    @Override
    public void made(ProcessImage image) {
      log.accept("snapshot " + image.directory().getFileName());
    }

    @Override
    public void failed(Throwable why) {
      log.accept("a snapshot failed: " + why.getMessage());
    }
  }
}
