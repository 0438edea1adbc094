package dev.gpuprocess.internal.launch;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.FixAndRetryException;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.linux.PidDescriptor.WaitStatus;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.process.Processes;
import dev.gpuprocess.internal.state.Journal;
import dev.gpuprocess.internal.time.Durations;
import dev.gpuprocess.internal.time.Polling;
import dev.gpuprocess.internal.time.Uninterrupted;
import dev.gpuprocess.options.LaunchOptions;
import dev.gpuprocess.process.ProcessIdentity;
import java.io.IOException;
import java.io.InputStream;
import java.time.Duration;
import java.util.HashSet;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A process that this JVM has started, through dumps and restores by this JVM until its end. One
 * daemon thread waits for it. Safe for use by several threads.
 */
public final class LaunchedRoot {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  /** Those that run, and those that are on disk. */
  private static final Set<LaunchedRoot> JOBS = ConcurrentHashMap.newKeySet();

  /** How long SIGKILL may take: the kernel tears down what is on a GPU. */
  private static final Duration KILL_LIMIT = Duration.ofMinutes(2);

  private static final int SIGTERM_CAUGHT = 1 << 14;

  private final LaunchOptions options;
  private final Duration limit;
  private final Journal journal;
  private final @Nullable RequestChannel requests;
  private final @Nullable CudaJobFile jobFile;
  private final @Nullable InputStream output;
  private final @Nullable InputStream error;

  /** Every process that this process has been. */
  private final Set<ProcessIdentity> lineage = new HashSet<>();

  private JobLife life;
  private boolean ended;
  private Optional<WaitStatus> status = Optional.empty();

  private LaunchedRoot(
      LaunchOptions options,
      Duration limit,
      Journal journal,
      @Nullable RequestChannel requests,
      @Nullable CudaJobFile jobFile,
      JobStart.Started started) {
    this.options = options;
    this.limit = limit;
    this.journal = journal;
    this.requests = requests;
    this.jobFile = jobFile;
    this.output = started.output();
    this.error = started.error();
    this.life =
        new JobLife(
            started.root(), started.held(), started.guard(), options.survivesExit(), journal);
    this.lineage.add(started.root());
  }

  /**
   * Starts a process.
   *
   * @param requests takes the requests of the process, and is closed at its end; null for a process
   *     that makes none
   * @param context of the driver that may want a job file, and of the place for it
   * @throws FixAndRetryException with a LAUNCH reason when it cannot be started
   * @throws OperationTimedOutException when it does not begin in time
   */
  public static LaunchedRoot launch(
      LaunchOptions options, @Nullable RequestChannel requests, EngineContext context) {
    Duration limit = context.timeouts().call();
    Journal journal = new Journal(context.state());
    CudaJobFile jobFile = null;
    boolean begun = false;
    try {
      jobFile = CudaJobFile.of(options, context.cuda(), context.state()).orElse(null);
      try (JobStart start = new JobStart(options, requests, jobFile, journal, limit)) {
        LaunchedRoot job =
            new LaunchedRoot(options, limit, journal, requests, jobFile, start.run());
        begun = true;
        JOBS.add(job);
        job.watch(job.life);
        return job;
      }
    } catch (RuntimeException | Error e) {
      if (requests != null) {
        requests.close();
      }
      throw e;
    } catch (IOException e) {
      throw notStarted(options, e);
    } finally {
      if (jobFile != null && !begun) {
        jobFile.ended();
      }
    }
  }

  /**
   * How a process of these options asks for snapshots.
   *
   * @throws FixAndRetryException with a LAUNCH reason when there is no place for it
   */
  public static RequestChannel requests(LaunchOptions options) {
    try {
      return RequestChannel.of(options);
    } catch (IOException e) {
      throw notStarted(options, e);
    }
  }

  private static FixAndRetryException notStarted(LaunchOptions options, IOException why) {
    return new FixAndRetryException(
        FixAndRetryException.Reason.LAUNCH_FAILED,
        "%s was not started: %s".formatted(options.command().get(0), why.getMessage()),
        Failure.of("launch", 0),
        why);
  }

  private void watch(JobLife watched) {
    Thread thread = new Thread(() -> awaitEnd(watched), "gpuprocess-job-" + watched.root.pid());
    thread.setDaemon(true);
    thread.start();
  }

  private void awaitEnd(JobLife watched) {
    Optional<WaitStatus> how = Optional.empty();
    try {
      how = watched.awaitRoot(limit);
    } catch (NativeCallException e) {
      LOG.warn("how process {} ends is not known: {}", watched.root.pid(), e.getMessage());
    }
    synchronized (this) {
      // The thread is ours, and nobody interrupts it.
      boolean unused = await(Durations.LONGEST, () -> watched.departures == 0);
      if (!watched.departed) {
        ended = true;
        status = how;
        JOBS.remove(this);
      }
      notifyAll();
    }
    if (requests != null && hasEnded()) {
      requests.close();
    }
    try {
      watched.awaitRest(limit);
    } catch (IOException | RuntimeException e) {
      LOG.warn("what process {} leaves is not reaped: {}", watched.root.pid(), e.getMessage());
    }
    if (jobFile != null) {
      // If it is in an image: a restore puts the file back.
      jobFile.ended();
    }
    synchronized (this) {
      watched.over = true;
      notifyAll();
    }
  }

  private boolean await(Duration patience, BooleanSupplier condition) {
    long end = Durations.end(patience);
    return Uninterrupted.until(
        end,
        nanos -> {
          synchronized (this) {
            for (long left = nanos; !condition.getAsBoolean(); left = Durations.left(end)) {
              if (left <= 0) {
                return false;
              }
              TimeUnit.NANOSECONDS.timedWait(this, Math.max(left, 1_000_000));
            }
            return true;
          }
        });
  }

  /** The newest process that it has been. */
  public synchronized ProcessIdentity root() {
    return life.root;
  }

  /** What it writes, where that goes to the caller. */
  public Optional<InputStream> output() {
    return Optional.ofNullable(output);
  }

  /** What it writes to standard error, where that goes to the caller. */
  public Optional<InputStream> error() {
    return Optional.ofNullable(error);
  }

  /** Whether its root has ended, and not because it was dumped. */
  public synchronized boolean hasEnded() {
    return ended;
  }

  /** Whether it is in an image, and was not restored since. */
  public synchronized boolean isAway() {
    return life.departed;
  }

  /** How its root ended; empty before, and where that is not known. */
  public synchronized Optional<WaitStatus> status() {
    return status;
  }

  /** Waits until its root has ended; false when the time is up. */
  public boolean awaitEnd(Duration patience) {
    return await(patience, () -> ended);
  }

  /**
   * Ends all of it.
   *
   * @param grace between SIGTERM and SIGKILL
   * @return false when it is in an image, and nothing was done
   * @throws OperationTimedOutException when something of it does not end
   */
  public boolean end(Duration grace) {
    JobLife now;
    try {
      synchronized (this) {
        now = life;
        if (now.departed) {
          return false;
        }
        if (now.over) {
          return true;
        }
      }
      boolean deaf = isDeafToTerm(now);
      if (!deaf) {
        order(now, Guard::terminate);
      }
      if (deaf || !await(grace, () -> now.over)) {
        order(now, Guard::kill);
      }
    } catch (IOException e) {
      throw new FixAndRetryException(
          FixAndRetryException.Reason.LAUNCH_FAILED,
          "process %s and what belongs to it cannot be ended: %s"
              .formatted(root().pid(), e.getMessage()),
          Failure.of("end", root().pid()),
          e);
    }
    if (!await(KILL_LIMIT, () -> now.over)) {
      throw new OperationTimedOutException(
          "process %s, or one that belongs to it, does not end: the kernel holds it, look at /proc/PID/stack of what is in session %s"
              .formatted(now.root.pid(), now.root.pid()),
          Failure.of("end", now.root.pid()));
    }
    return true;
  }

  /** An order to a guard. */
  @FunctionalInterface
  private interface Order {
    boolean give(Guard guard) throws NativeCallException;
  }

  /** Where a guard has just been killed, the next one is ordered. */
  private void order(JobLife to, Order order) throws IOException {
    try (Polling patience = new Polling(limit)) {
      while (!isGiven(to, order) && !await(Duration.ZERO, () -> to.over)) {
        if (!patience.pause()) {
          throw new IOException("its guard process has exited");
        }
      }
    }
  }

  private static boolean isGiven(JobLife to, Order order) throws IOException {
    Optional<Guard> guard = to.guard();
    return guard.isPresent() && order.give(guard.get());
  }

  /** The first process of a pid namespace is not ended by a signal that it does not handle. */
  private boolean isDeafToTerm(JobLife now) {
    String caught = ProcFs.status(now.root.pid()).getOrDefault("SigCgt", "");
    return options.isolated()
        && !caught.isBlank()
        && (Long.parseUnsignedLong(caught.strip(), 16) & SIGTERM_CAUGHT) == 0;
  }

  /** Whether a child of this JVM is the root of a process, and waited for by its thread alone. */
  public static boolean isRoot(int child) {
    return JOBS.stream().anyMatch(job -> job.root().pid() == child);
  }

  /** The launched process whose root a process is. */
  static Optional<LaunchedRoot> running(ProcessIdentity process) {
    return JOBS.stream().filter(job -> job.root().equals(process)).findFirst();
  }

  synchronized Optional<JobLife> departing(ProcessIdentity process) {
    if (!life.root.equals(process) || ended) {
      return Optional.empty();
    }
    life.departures++;
    return Optional.of(life);
  }

  synchronized void departed(JobLife from, boolean done) {
    from.departures--;
    from.departed |= done;
    notifyAll();
  }

  /**
   * Takes the process that an image is of which is about to be restored. Of several restores at a
   * time one gets it, until {@link #returned} or {@link #notReturned}.
   *
   * @param dumped the process in the image
   * @return empty when it was not launched here, or runs, or has ended
   */
  public static Optional<LaunchedRoot> take(ProcessIdentity dumped) {
    return JOBS.stream().filter(job -> job.isTaken(dumped)).findFirst();
  }

  private synchronized boolean isTaken(ProcessIdentity dumped) {
    boolean takes = life.departed && !life.taken && lineage.contains(dumped);
    life.taken |= takes;
    return takes;
  }

  /** The restore has failed. */
  public synchronized void notReturned() {
    life.taken = false;
  }

  /** It was restored, and has ended before it could be followed: how is not known. */
  private void endedUnseen(ProcessIdentity process) {
    synchronized (this) {
      lineage.add(process);
      life.departed = false;
      ended = true;
      JOBS.remove(this);
      notifyAll();
    }
    if (requests != null) {
      requests.close();
    }
    if (jobFile != null) {
      jobFile.ended();
    }
  }

  /** It was restored. */
  public void returned(ProcessIdentity process) {
    JobLife before;
    synchronized (this) {
      before = life;
    }
    if (!await(limit, () -> before.over)) {
      LOG.warn("the guard of process {} does not end", before.root.pid());
    }
    try {
      JobLife next = JobLife.restored(process, options.survivesExit(), journal, limit);
      synchronized (this) {
        life = next;
        lineage.add(process);
      }
      watch(next);
    } catch (NativeCallException e) {
      if (Processes.stat(process).isEmpty()) {
        endedUnseen(process);
        return;
      }
      LOG.warn("process {} was restored and is not followed: {}", process.pid(), e.getMessage());
    }
    try {
      if (requests != null) {
        requests.taken(process, limit);
      }
    } catch (IOException e) {
      LOG.warn("process {} was restored, and may not ask: {}", process.pid(), e.getMessage());
    }
  }
}
