package dev.gpuprocess.internal.launch;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.FixAndRetryException;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.internal.call.BoundedCall;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.launch.Lifetime.State;
import dev.gpuprocess.internal.linux.ExitStatus;
import dev.gpuprocess.internal.linux.PidDescriptor;
import dev.gpuprocess.internal.linux.Processes;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.Signals;
import dev.gpuprocess.internal.proc.Unreadable;
import dev.gpuprocess.internal.state.Journal;
import dev.gpuprocess.internal.text.Printable;
import dev.gpuprocess.internal.time.Deadline;
import dev.gpuprocess.internal.time.Durations;
import dev.gpuprocess.internal.time.IoFunction;
import dev.gpuprocess.internal.time.Polling;
import dev.gpuprocess.internal.time.Uninterrupted;
import dev.gpuprocess.options.LaunchOptions;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashSet;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A process that this JVM has started or restored as its child, through dumps and restores by this
 * JVM until it exits. A daemon thread waits for it. Safe for use by several threads.
 */
public final class LaunchedRoot {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  /** All launched processes that are alive or in an image. */
  private static final Set<LaunchedRoot> ALL = ConcurrentHashMap.newKeySet();

  /** The pids of the roots whose restore has begun a lifetime and is still under way. */
  private static final Set<Integer> BEING_RESTORED = ConcurrentHashMap.newKeySet();

  /** The time that a killed process may take to exit: the kernel tears down its GPU state. */
  private static final Duration KILL_LIMIT = Duration.ofMinutes(2);

  /** The time between two looks for a process whose exit cannot be awaited. */
  private static final Duration NEXT_LOOK = Duration.ofSeconds(1);

  private final boolean isolated;
  private final boolean survivesExit;
  private final Duration limit;
  private final Journal journal;
  private final @Nullable RequestChannel requests;
  private final @Nullable CudaJobFile jobFile;
  private final @Nullable InputStream output;
  private final @Nullable InputStream error;

  /** The processes of all lifetimes. */
  private final Set<ProcessIdentity> lineage = new HashSet<>();

  private Lifetime lifetime;
  private Optional<ExitStatus> status = Optional.empty();
  private final CompletableFuture<Optional<ExitStatus>> end = new CompletableFuture<>();

  private LaunchedRoot(
      LaunchOptions options,
      Duration limit,
      Journal journal,
      @Nullable RequestChannel requests,
      @Nullable CudaJobFile jobFile,
      Starter.Started started) {
    this.isolated = options.isolated();
    this.survivesExit = options.survivesExit();
    this.limit = limit;
    this.journal = journal;
    this.requests = requests;
    this.jobFile = jobFile;
    this.output = started.output();
    this.error = started.error();
    this.lifetime =
        new Lifetime(
            started.root(), started.held(), started.guard(), options.survivesExit(), journal);
    this.lineage.add(started.root());
  }

  private LaunchedRoot(
      boolean isolated,
      boolean survivesExit,
      Duration limit,
      Journal journal,
      ProcessIdentity dumped,
      Lifetime first) {
    this.isolated = isolated;
    this.survivesExit = survivesExit;
    this.limit = limit;
    this.journal = journal;
    this.requests = null;
    this.jobFile = null;
    this.output = null;
    this.error = null;
    this.lifetime = first;
    this.lineage.add(dumped);
    this.lineage.add(first.root);
  }

  /** Takes a process that was restored from an image, and is not yet a launched process. */
  static LaunchedRoot restored(
      boolean isolated,
      boolean survivesExit,
      Duration limit,
      Journal journal,
      ProcessIdentity dumped,
      Lifetime first,
      ExitWatcher watcher) {
    LaunchedRoot launched = new LaunchedRoot(isolated, survivesExit, limit, journal, dumped, first);
    ALL.add(launched);
    launched.watch(first, watcher);
    return launched;
  }

  /**
   * Starts a process.
   *
   * @param requests the channel for its requests, which is closed when it exits; null for a process
   *     that makes none
   * @param context the driver, which may need a job file, and the state directory, which has it
   * @throws FixAndRetryException with a LAUNCH reason when it cannot be started
   * @throws OperationTimedOutException when it does not start in time
   */
  public static LaunchedRoot launch(
      LaunchOptions options, @Nullable RequestChannel requests, EngineContext context) {
    Duration limit = context.timeouts().call();
    Journal journal = new Journal(context.state());
    CudaJobFile jobFile = null;
    boolean started = false;
    try (ExitWatcher watcher = ExitWatcher.start()) {
      jobFile = CudaJobFile.of(options, context.cuda(), context.state()).orElse(null);
      try (Starter starter = new Starter(options, requests, jobFile, journal, limit)) {
        LaunchedRoot launched =
            new LaunchedRoot(options, limit, journal, requests, jobFile, starter.run());
        started = true;
        ALL.add(launched);
        launched.watch(launched.lifetime, watcher);
        return launched;
      }
    } catch (IOException e) {
      throw notStarted(options, e);
    } finally {
      if (requests != null && !started) {
        requests.close();
      }
      if (jobFile != null && !started) {
        jobFile.ended();
      }
    }
  }

  /**
   * Creates the channel for the requests of a process.
   *
   * @throws FixAndRetryException with a LAUNCH reason when no directory for it can be made
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

  private void watch(Lifetime watched, ExitWatcher watcher) {
    watcher.watch(watched.root.pid(), () -> awaitEnd(watched));
  }

  private void awaitEnd(Lifetime watched) {
    Optional<ExitStatus> exited = awaitExit(watched);
    boolean inImage;
    synchronized (this) {
      // The thread is ours, and no other code interrupts it.
      boolean unused = await(Durations.LONGEST, () -> watched.dumps == 0);
      inImage = watched.isInImage();
      if (!inImage) {
        ended(watched, exited);
      }
    }
    if (!inImage) {
      complete(exited);
    }
    if (requests != null && !inImage) {
      requests.close();
    }
    try {
      watched.awaitRest(inImage, limit);
    } catch (IOException | RuntimeException | Error e) {
      LOG.warn("the session of process {} is not reaped", watched.root.pid(), e);
    }
    if (jobFile != null) {
      // A restore from an image creates the file again.
      jobFile.ended();
    }
    synchronized (this) {
      watched.isReaped = true;
      notifyAll();
    }
  }

  /** Completes the future on a thread of its own, as its dependents may block. */
  private void complete(Optional<ExitStatus> exited) {
    try {
      end.completeAsync(() -> exited, BoundedCall.THREADS);
    } catch (OutOfMemoryError noThread) {
      end.complete(exited);
    }
  }

  private Optional<ExitStatus> awaitExit(Lifetime watched) {
    try {
      return watched.awaitRoot(limit);
    } catch (IOException | RuntimeException | Error e) {
      LOG.warn("how process {} exits will not be known", watched.root.pid(), e);
      // Its exit must be seen all the same.
      while (Unreadable.as(true, watched.root::isAlive)) {
        Uninterrupted.pause(NEXT_LOOK.toNanos());
      }
      return Optional.empty();
    }
  }

  private synchronized void ended(Lifetime last, Optional<ExitStatus> how) {
    last.state = State.ENDED;
    status = how;
    ALL.remove(this);
    notifyAll();
  }

  private boolean await(Duration patience, BooleanSupplier condition) {
    Deadline deadline = Deadline.after(patience);
    return Uninterrupted.until(
        deadline,
        nanos -> {
          synchronized (this) {
            for (long left = nanos; !condition.getAsBoolean(); left = deadline.nanos()) {
              if (left <= 0) {
                return false;
              }
              TimeUnit.NANOSECONDS.timedWait(this, Math.max(left, 1_000_000));
            }
            return true;
          }
        });
  }

  /** Returns the process of the present lifetime. */
  public synchronized ProcessIdentity root() {
    return lifetime.root;
  }

  /** Returns its standard output, if the caller reads it. */
  public Optional<InputStream> output() {
    return Optional.ofNullable(output);
  }

  /** Returns its standard error, if the caller reads it. */
  public Optional<InputStream> error() {
    return Optional.ofNullable(error);
  }

  /** Returns whether its root has exited, and not because of a dump. */
  public synchronized boolean hasEnded() {
    return lifetime.state == State.ENDED;
  }

  /** Returns whether it is in an image, and was not restored since. */
  public synchronized boolean isInImage() {
    return lifetime.isInImage();
  }

  /** Returns how its root exited; empty before, and if that is not known. */
  public synchronized Optional<ExitStatus> status() {
    return status;
  }

  /** Returns a future that is completed with {@link #status}, on a thread of its own. */
  public CompletableFuture<Optional<ExitStatus>> end() {
    return end;
  }

  /** Waits until its root has exited; false at the end of the limit. */
  public boolean awaitEnd(Duration patience) {
    return await(patience, () -> lifetime.state == State.ENDED);
  }

  /**
   * Ends the process and its session.
   *
   * @param grace the time between SIGTERM and SIGKILL
   * @return false if it is in an image, and nothing was done
   * @throws OperationTimedOutException when one of its processes does not exit, or the guard that
   *     was to end them was killed and no other could be started
   */
  public boolean end(Duration grace) {
    Lifetime now;
    try {
      synchronized (this) {
        now = lifetime;
        if (now.isInImage()) {
          return false;
        }
        if (now.isReaped) {
          return true;
        }
      }
      boolean ignoresSigterm = ignoresSigterm(now);
      if (!ignoresSigterm) {
        order(now, Guard::terminate);
      }
      if (ignoresSigterm || !await(grace, () -> now.isReaped)) {
        order(now, Guard::kill);
      }
    } catch (IOException e) {
      throw new FixAndRetryException(
          FixAndRetryException.Reason.LAUNCH_FAILED,
          "process %s and its session cannot be ended: %s".formatted(root().pid(), e.getMessage()),
          Failure.of("end", root().pid()),
          e);
    }
    if (!await(KILL_LIMIT, () -> now.isReaped)) {
      throw new OperationTimedOutException(
          "process %s, or another process of its session, does not exit: the kernel blocks the exit, see /proc/PID/stack of the processes in session %s"
              .formatted(now.root.pid(), now.root.pid()),
          Failure.of("end", now.root.pid()));
    }
    return true;
  }

  /** Gives an order; if the guard was killed, to the next one. */
  private void order(Lifetime to, IoFunction<Guard, Boolean> order) throws IOException {
    if (!Polling.until(
        limit, () -> isGiven(to, order) || await(Duration.ZERO, () -> to.isReaped))) {
      throw new OperationTimedOutException(
          "process %s and its session are not ended: their guard was killed, and no other could be started within %s; the log says why"
              .formatted(to.root.pid(), Printable.of(limit)),
          Failure.of("end", to.root.pid()));
    }
  }

  private static boolean isGiven(Lifetime to, IoFunction<Guard, Boolean> order) throws IOException {
    Optional<Guard> guard = to.guard();
    return guard.isPresent() && order.apply(guard.get());
  }

  /**
   * Ends a process that had to exit with the JVM that launched it, and is alive after that JVM and
   * its guard.
   *
   * @param entry the process's file in the journal
   * @return false if it does not exit within the limit
   * @throws IOException when that cannot be tried
   */
  public static boolean endLeftover(ProcessIdentity root, Path entry, Duration limit)
      throws IOException {
    try (PidDescriptor held = PidDescriptor.open(root.pid())) {
      if (Processes.stat(root).isEmpty()) {
        return true; // another process has its pid
      }
      Guard guard = Guard.start(root, held, false, entry, limit);
      boolean ordered = guard.kill();
      return guard.awaitEnd(limit) && ordered;
    }
  }

  /** The kernel ignores a signal to the first process of a pid namespace without a handler. */
  private boolean ignoresSigterm(Lifetime now) {
    Map<String, String> fields = ProcFs.status(now.root.pid());
    return isolated
        && fields.containsKey("SigCgt")
        && (Signals.set(fields, "SigCgt") & Signals.set(Signals.SIGTERM)) == 0;
  }

  /** Notes that CRIU has made a root, which becomes a launched process when its restore ends. */
  static void beginRestore(int root) {
    BEING_RESTORED.add(root);
  }

  /** Ends what {@link #beginRestore} began. */
  static void endRestore(int root) {
    BEING_RESTORED.remove(root);
  }

  /** Returns whether a child of this JVM is a launched process, which only its thread reaps. */
  public static boolean isRoot(int child) {
    return BEING_RESTORED.contains(child)
        || ALL.stream().anyMatch(each -> each.root().pid() == child);
  }

  /**
   * Marks a process as being dumped: its exit is not the end of a launched process. Does nothing
   * for processes that were not launched here.
   */
  public static DumpInProgress dumping(ProcessIdentity process) {
    return ALL.stream()
        .flatMap(each -> each.beginDump(process).stream())
        .findFirst()
        .orElseGet(() -> new DumpInProgress(isDumped -> {}));
  }

  private synchronized Optional<DumpInProgress> beginDump(ProcessIdentity process) {
    if (!lifetime.root.equals(process) || lifetime.state == State.ENDED) {
      return Optional.empty();
    }
    Lifetime from = lifetime;
    from.dumps++;
    return Optional.of(new DumpInProgress(isDumped -> endDump(from, isDumped)));
  }

  private synchronized void endDump(Lifetime from, boolean isDumped) {
    from.dumps--;
    if (isDumped && from.state == State.ALIVE) {
      from.state = State.DUMPED;
    }
    notifyAll();
  }

  /** A dump of a process that may have been launched here. */
  public static final class DumpInProgress implements AutoCloseable {

    private final Consumer<Boolean> end;
    private boolean isDumped;

    private DumpInProgress(Consumer<Boolean> end) {
      this.end = end;
    }

    /** The process is in its image now, and exits because of that. */
    public void done() {
      isDumped = true;
    }

    @Override
    public void close() {
      end.accept(isDumped);
    }
  }

  /**
   * Begins the restore of a launched process. Of several restores at the same time one gets it,
   * until {@link #begin} or {@link #notRestored}.
   *
   * @param dumped the process in the image
   * @return empty if it was not launched here, is running, or has exited
   */
  static Optional<LaunchedRoot> restoring(ProcessIdentity dumped) {
    return ALL.stream().filter(each -> each.beginRestore(dumped)).findFirst();
  }

  private synchronized boolean beginRestore(ProcessIdentity dumped) {
    if (lifetime.state != State.DUMPED || !lineage.contains(dumped)) {
      return false;
    }
    lifetime.state = State.RESTORING;
    return true;
  }

  /** Ends a restore that has failed. */
  synchronized void notRestored() {
    if (lifetime.state == State.RESTORING) {
      lifetime.state = State.DUMPED;
    }
  }

  /** Waits until nothing is left of the lifetime that a dump has ended. */
  void awaitReaped() {
    Lifetime before;
    synchronized (this) {
      before = lifetime;
    }
    if (!await(limit, () -> before.isReaped)) {
      LOG.warn("the guard of process {} does not exit", before.root.pid());
    }
  }

  /** Returns the lifetime of a process that is being restored, which is not begun. */
  Lifetime nextLifetime(ProcessIdentity process) throws IOException {
    return Lifetime.restored(process, survivesExit, journal, limit);
  }

  /** Begins the next lifetime: the process was restored. */
  void begin(Lifetime next, ExitWatcher watcher) {
    synchronized (this) {
      lifetime = next;
      lineage.add(next.root);
    }
    watch(next, watcher);
    try {
      if (requests != null) {
        requests.taken(next.root, limit);
      }
    } catch (IOException e) {
      LOG.warn(
          "process {} was restored, and may not make requests: {}",
          next.root.pid(),
          e.getMessage());
    }
  }
}
