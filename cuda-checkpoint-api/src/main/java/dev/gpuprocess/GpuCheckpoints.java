package dev.gpuprocess;

import static java.util.Objects.requireNonNull;

import dev.gpuprocess.cuda.CudaDriver;
import dev.gpuprocess.cuda.GpuInventory;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.FixAndRetryException;
import dev.gpuprocess.error.MachineUnfitException;
import dev.gpuprocess.error.OperationCancelledException;
import dev.gpuprocess.error.OperationInProgressException;
import dev.gpuprocess.error.StaleStateException;
import dev.gpuprocess.internal.call.BoundedCall;
import dev.gpuprocess.internal.call.StateReading;
import dev.gpuprocess.internal.call.Stop;
import dev.gpuprocess.internal.context.CriuProviders;
import dev.gpuprocess.internal.context.CriuSettings;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.context.LibraryClasses;
import dev.gpuprocess.internal.cuda.LibCuda;
import dev.gpuprocess.internal.cuda.LibNvml;
import dev.gpuprocess.internal.doctor.Doctor;
import dev.gpuprocess.internal.doctor.ProcessList;
import dev.gpuprocess.internal.dump.AmdTree;
import dev.gpuprocess.internal.engine.StateHandle;
import dev.gpuprocess.internal.engine.TrackedTree;
import dev.gpuprocess.internal.engine.TreeSearch;
import dev.gpuprocess.internal.image.ImageKey;
import dev.gpuprocess.internal.launch.LaunchedRoot;
import dev.gpuprocess.internal.launch.RequestChannel;
import dev.gpuprocess.internal.pool.HostMemoryPool;
import dev.gpuprocess.internal.recovery.RecoveredProcess;
import dev.gpuprocess.internal.recovery.Recovery;
import dev.gpuprocess.internal.state.Journal;
import dev.gpuprocess.internal.state.StateDirectory;
import dev.gpuprocess.internal.time.Deadline;
import dev.gpuprocess.internal.time.Durations;
import dev.gpuprocess.internal.time.Polling;
import dev.gpuprocess.options.Attribute;
import dev.gpuprocess.options.CriuOptions;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.HostMemory;
import dev.gpuprocess.options.LaunchOptions;
import dev.gpuprocess.options.ResumeOptions;
import dev.gpuprocess.options.SuspendOptions;
import dev.gpuprocess.options.Timeouts;
import dev.gpuprocess.report.Diagnosis;
import dev.gpuprocess.report.ListedProcess;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.report.StepListener;
import dev.gpuprocess.report.SuspendedProcess;
import dev.gpuprocess.spi.CriuDriver;
import java.nio.file.Path;
import java.time.Duration;
import java.time.InstantSource;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * The drivers and settings behind every verb. {@link GpuProcess#of} and {@link ProcessImage#open}
 * use {@link #standard()}. A program with other drivers or settings builds its own, and starts from
 * {@link #process}, {@link #inspect} and {@link #open}. Immutable; may be used from any thread.
 */
public final class GpuCheckpoints {

  private static final GpuCheckpoints STANDARD =
      new GpuCheckpoints(
          new EngineContext(
              LibCuda.system(),
              LibNvml.system(),
              CriuProviders::first,
              StepListener.NONE,
              Timeouts.ofDefaults(),
              StateDirectory.standard(),
              true,
              new HostMemoryPool(HostMemory.automatic()),
              false,
              false,
              false,
              new CriuSettings(CriuOptions.ofDefaults(), Set.of()),
              null));

  private final EngineContext context;

  GpuCheckpoints(EngineContext context) {
    this.context = context;
  }

  /**
   * The drivers of this machine: libcuda and NVML as the dynamic loader finds them, and the CRIU
   * driver on the class path or module path. Neither is loaded before it is needed.
   *
   * @return the settings that {@link GpuProcess#of} uses
   * @throws dev.gpuprocess.error.MachineUnfitException with reason CLASS_LOADING when the classes
   *     of this library lie in a directory and one of them cannot be loaded
   */
  public static GpuCheckpoints standard() {
    LibraryClasses.load();
    return STANDARD;
  }

  /**
   * Takes a running process with its descendants.
   *
   * @param pid of the root; it or a descendant uses CUDA
   * @return the process
   * @throws dev.gpuprocess.error.OperationInProgressException when a verb is under way that has
   *     taken it from running, in whatever JVM
   * @see GpuProcess#of
   */
  public RunningProcess process(long pid) {
    return running(pid, () -> inspect(pid));
  }

  /** The same of a launched process, in which no process may have used CUDA yet. */
  RunningProcess launched(long pid) {
    return running(pid, () -> LiveProcess.found(TreeSearch.find(context, pid, "of")));
  }

  private static RunningProcess running(long pid, Supplier<GpuProcess> look) {
    GpuProcess found =
        TreeSearch.settled(look, GpuProcess::state, each -> ((LiveProcess) each).self.tree(), "of");
    if (found instanceof RunningProcess running) {
      return running;
    }
    throw new FixAndRetryException(
        FixAndRetryException.Reason.WRONG_STATE,
        "process %s is %s already; take it with GpuProcess.inspect(%s)"
            .formatted(pid, found.state(), pid),
        new Failure("of", pid, found.state(), found.state(), Duration.ZERO, null, null));
  }

  /**
   * Takes a process with its descendants in whatever state it is in. May be called often and from
   * many threads: concurrent reads of the state of one process share one driver call, and delay no
   * verb.
   *
   * @param pid of the root; it or a descendant uses CUDA
   * @return an object of the type of its state
   * @throws dev.gpuprocess.error.OperationInProgressException when a verb was under way for longer
   *     than {@link Timeouts#call()}; the state can only be read between two moves, and not while
   *     CRIU works on the process
   * @see GpuProcess#inspect
   */
  public GpuProcess inspect(long pid) {
    return LiveProcess.found(TreeSearch.findWithMembers(context, pid, "inspect"));
  }

  /**
   * Brings a process back to running, from whatever state it is in.
   *
   * @param pid of the root
   * @return the running process
   * @see #resume(long, ResumeOptions)
   */
  public RunningProcess resume(long pid) {
    return resume(pid, ResumeOptions.ofDefaults());
  }

  /**
   * Brings a process back to running, from whatever state it is in: a running one is returned as it
   * is, a locked one unlocked, a checkpointed one resumed. For tools that mend what others left.
   * Several threads and JVMs may call this for one process: each returns when it runs. While
   * another verb works on the process, this waits until that has ended, for up to {@link
   * Timeouts#transfer()} and the deadline of the options. An interrupt does not shorten that wait.
   *
   * @param pid of the root, which may have exited when members of its tree are suspended
   * @param options the GPUs to go to, how long it may take and wait for memory, and what ends it
   *     early
   * @return the running process
   * @throws OperationInProgressException when another verb was at work all the time
   * @throws FixAndRetryException with reason WRONG_STATE when the driver has given the process up,
   *     or refuses to restore it since an earlier restore ran out of GPU memory; {@link #inspect}
   *     gives what is left of it
   * @throws dev.gpuprocess.error.GpuCheckpointException as {@link #inspect} and {@link
   *     CheckpointedProcess#resume(ResumeOptions)}
   */
  public RunningProcess resume(long pid, ResumeOptions options) {
    Deadline deadline = Deadline.after(options.deadline());
    try (Polling waiting =
        new Polling(Durations.min(options.deadline(), context.timeouts().transfer()))) {
      while (true) {
        Stop.requireNotCancelled(options.cancellation(), "resume", "process " + pid, pid);
        try {
          GpuProcess found = inspect(pid);
          return resumed(found, options.toBuilder().deadline(left(deadline)).build());
        } catch (OperationInProgressException | StaleStateException e) {
          if (!waiting.pause()) {
            throw e;
          }
        }
      }
    }
  }

  private static Duration left(Deadline deadline) {
    return Duration.ofMillis(Math.max(1, Durations.millis(deadline.remaining())));
  }

  RunningProcess resumed(GpuProcess found, ResumeOptions options) {
    if (found instanceof RunningProcess running) {
      return running;
    }
    if (found instanceof LockedProcess locked) {
      return locked.unlock();
    }
    if (found instanceof CheckpointedProcess checkpointed) {
      return checkpointed.resume(options);
    }
    throw new FixAndRetryException(
        FixAndRetryException.Reason.WRONG_STATE,
        "%s cannot run again: take it with GpuProcess.inspect(%s), and end it or replace it by its image"
            .formatted(found, found.pid()),
        new Failure(
            "resume", found.pid(), found.state(), found.state(), Duration.ZERO, null, null));
  }

  /**
   * Takes a process off its GPU, from whatever state it is in.
   *
   * @param pid of the root
   * @return the checkpointed process
   * @see #suspend(long, SuspendOptions)
   */
  public CheckpointedProcess suspend(long pid) {
    return suspend(pid, SuspendOptions.ofDefaults());
  }

  /**
   * Takes a process off its GPU, from whatever state it is in: a checkpointed one is returned as it
   * is, one that is half way is brought back and suspended. While another verb works on the
   * process, such as a snapshot, this waits until that has ended, for up to the deadline of the
   * options; {@link RunningProcess#suspend(SuspendOptions)} is refused then. Other controllers may
   * come first when it has ended. An interrupt does not shorten that wait, but ends the suspend.
   *
   * @param pid of the root
   * @param options how long it may take, the wait for another verb included, and what ends it early
   * @return the checkpointed process
   * @throws dev.gpuprocess.error.OperationInProgressException when another verb was at work until
   *     the deadline
   * @throws FixAndRetryException with reason WRONG_STATE when the driver has given the process up,
   *     or refuses to restore it
   * @throws dev.gpuprocess.error.GpuCheckpointException as {@link #inspect} and {@link
   *     RunningProcess#suspend(SuspendOptions)}
   */
  public CheckpointedProcess suspend(long pid, SuspendOptions options) {
    Deadline deadline = Deadline.after(options.deadline());
    try (Polling waiting = new Polling(options.deadline())) {
      while (true) {
        Stop.requireNotCancelled(options.cancellation(), "suspend", "process " + pid, pid);
        try {
          requireNoVerb(pid);
          GpuProcess found = inspect(pid);
          requireNotInterrupted(waiting, found);
          return suspended(found, options, deadline);
        } catch (OperationInProgressException | StaleStateException e) {
          if (!waiting.pause()) {
            throw e;
          }
        }
      }
    }
  }

  private static void requireNotInterrupted(Polling waiting, GpuProcess found) {
    if (waiting.isInterrupted()) {
      throw new OperationCancelledException(
          "suspend of process %s ended early because its thread was interrupted while another verb was at work: nothing was touched"
              .formatted(found.pid()),
          Failure.of("suspend", found.pid()));
    }
  }

  /** Refuses at once what {@link #inspect} refuses when the driver has not answered. */
  private void requireNoVerb(long pid) {
    ProcessIdentity.of(pid)
        .map(root -> TrackedTree.of(context, root, List.of()))
        .ifPresent(root -> root.requireNoVerb("suspend"));
  }

  private CheckpointedProcess suspended(
      GpuProcess found, SuspendOptions options, Deadline deadline) {
    boolean isWhole =
        found.members().stream().allMatch(each -> each.state() == ProcessState.CHECKPOINTED);
    if (found instanceof CheckpointedProcess checkpointed && isWhole) {
      return checkpointed;
    }
    return resumed(found, ResumeOptions.ofDefaults())
        .suspend(options.toBuilder().deadline(left(deadline)).build());
  }

  /**
   * Takes a running process that uses AMD GPUs.
   *
   * @param rootPid the root of the tree, which need not use the GPU itself
   * @return the process
   * @see AmdProcess#of
   */
  public AmdProcess amdProcess(long rootPid) {
    return new AmdProcess(StateHandle.next(AmdTree.find(context, rootPid), List.of()));
  }

  /**
   * Prepares this JVM for its first suspend and its first dump, so that they take no longer than
   * later ones: it finds the driver, the GPUs and CRIU, loads the classes, and dumps a small
   * process of its own ({@code sleep}) to a temporary directory, of which nothing is left. For a
   * program whose first verb is urgent, such as one that dumps a job when a scheduler preempts it.
   * Takes some seconds on a busy machine: call it early, on a thread of its own. Other verbs may be
   * used at the same time. Touches no other process; the listener is not notified.
   *
   * @throws MachineUnfitException when the driver or CRIU is missing or too old
   * @throws dev.gpuprocess.error.GpuCheckpointException as {@link #launch} and {@link
   *     RunningProcess#dump(Path)}: a first dump would fail like this
   */
  public void prepare() {
    new Preparation(this).run();
  }

  /**
   * Starts a process as a child of this JVM, prepared for being dumped and restored. Needs Linux
   * 5.4 and glibc 2.34 on x86_64.
   *
   * <p>Where the CUDA driver is 590 or later, the process gets an empty file, named by {@code
   * CUDA_CHECKPOINT_JOB_FILE} in its environment, in which the driver keeps what it must know to
   * checkpoint several processes of one job. Images carry it, each restore gets a copy of its own,
   * and it is removed when the process has ended. A variable of this name that is set is left as it
   * is, and there is none when the variable is among the {@linkplain
   * LaunchOptions.Builder#removeEnvironment removed} ones. This was tried on the simulated driver
   * only: what a real one makes of an empty file is not known.
   *
   * @param options what to start, and how
   * @return the process, which runs
   * @throws dev.gpuprocess.error.FixAndRetryException with a LAUNCH reason when it cannot be
   *     started; nothing of it is left
   * @throws dev.gpuprocess.error.OperationTimedOutException when it has not begun within {@link
   *     Timeouts#call()}; nothing of it is left
   */
  public LaunchedProcess launch(LaunchOptions options) {
    return new LaunchedProcess(this, LaunchedRoot.launch(options, null, context));
  }

  /**
   * Starts a process that may ask for snapshots of itself, as {@link SnapshotPlan} says.
   *
   * @param options what to start, and how
   * @param plan where the snapshots go, and their listener; its directory is made if it does not
   *     exist
   * @return the process, which runs and takes requests
   * @throws dev.gpuprocess.error.FixAndRetryException with a LAUNCH reason when it cannot be
   *     started; nothing of it is left
   * @throws dev.gpuprocess.error.OperationTimedOutException when it has not begun within {@link
   *     Timeouts#call()}; nothing of it is left
   * @throws dev.gpuprocess.error.ImageException with reason DIRECTORY when the plan's directory
   *     cannot be made
   * @throws IllegalArgumentException when the plan's store is of settings with another image key
   */
  public LaunchedProcess launch(LaunchOptions options, SnapshotPlan plan) {
    plan.place().requireFor(context);
    plan.place().create();
    RequestChannel channel = LaunchedRoot.requests(options);
    LaunchedProcess job = new LaunchedProcess(this, LaunchedRoot.launch(options, channel, context));
    try {
      new RequestedSnapshots(this, job, plan, channel).begin();
    } catch (RuntimeException | Error e) {
      endUnserved(job, e);
      throw e;
    }
    return job;
  }

  /** Ends a process whose requests no thread would serve, and of which the caller has no object. */
  private static void endUnserved(LaunchedProcess job, Throwable why) {
    try {
      Optional<LaunchedProcess.Exit> unused = job.end(Duration.ZERO);
    } catch (RuntimeException | Error e) {
      why.addSuppressed(e);
    }
  }

  /**
   * Reads how a process has ended that was launched with {@link
   * LaunchOptions.Builder#survivesExit(boolean) survivesExit(true)}, by this JVM or by one that has
   * exited since. Its guard records that in the {@linkplain #stateDirectory() state directory},
   * with what the kernel reports by a pidfd ({@code PIDFD_GET_INFO}, Linux 6.15). A dump ends the
   * process by SIGKILL; the restored process has another identity.
   *
   * @param process as {@link LaunchedProcess#identity()} returned it
   * @return how it ended; empty while it runs, and when that is not known: with an older kernel, or
   *     when the guard was killed
   * @throws FixAndRetryException with reason STATE_DIRECTORY when the record cannot be read
   */
  public Optional<LaunchedProcess.Exit> exit(ProcessIdentity process) {
    return new Journal(context.state()).exit(process).map(LaunchedProcess::exit);
  }

  /**
   * Opens an image.
   *
   * @param directory as given to {@link CheckpointedProcess#dump(Path)}
   * @return the image
   * @see ProcessImage#open
   */
  public ProcessImage open(Path directory) {
    return ProcessImage.open(context, directory);
  }

  /**
   * Opens an image as that of an AMD process.
   *
   * @param directory as given to {@link AmdProcess#dump(Path)}
   * @return the image
   * @see AmdImage#open
   */
  public AmdImage openAmd(Path directory) {
    return AmdImage.open(context, directory);
  }

  /**
   * The images in a directory.
   *
   * @param directory need not exist yet; a link is followed
   * @return the store; nothing was read or made
   * @see ImageStore#at
   */
  public ImageStore store(Path directory) {
    return new ImageStore(context, directory, InstantSource.system());
  }

  /**
   * The CRIU driver: the one that was set, or else the first that the service loader finds with the
   * class loader of this library, or with the context class loader of this thread. The one of this
   * library talks to CRIU over its RPC.
   *
   * @return the driver
   * @throws MachineUnfitException with reason NO_CRIU when none is on the class path or module
   *     path, or it cannot be loaded
   */
  public CriuDriver criu() {
    return context.criu();
  }

  /**
   * The CUDA driver.
   *
   * @return the driver that every verb calls
   */
  public CudaDriver cuda() {
    return context.cuda();
  }

  /**
   * The GPUs of this machine, and what is free on them.
   *
   * @return the inventory that is read before every restore
   */
  public GpuInventory gpus() {
    return context.gpus();
  }

  /**
   * Where controllers lock the processes that they work on, and keep their journal.
   *
   * @return the state directory; it may not exist yet
   */
  public Path stateDirectory() {
    return context.state().path();
  }

  /**
   * How long the verbs of these settings wait.
   *
   * @return the limits of calls, locks, transfers and waits for memory
   */
  public Timeouts timeouts() {
    return context.timeouts();
  }

  EngineContext context() {
    return context;
  }

  /**
   * Starts a builder with these settings.
   *
   * @return a builder
   */
  public Builder toBuilder() {
    return new Builder(context);
  }

  /**
   * Starts a builder with the settings of {@link #standard()}.
   *
   * @return a builder
   */
  public static Builder builder() {
    return STANDARD.toBuilder();
  }

  /** Builds settings. Not for use by several threads at a time. */
  public static final class Builder {

    private CudaDriver cuda;
    private GpuInventory gpus;
    private Supplier<CriuDriver> criu;
    private StepListener listener;
    private Timeouts timeouts;
    private StateDirectory state;
    private boolean driverHook;
    private HostMemoryPool hostMemory;
    private @Nullable HostMemory newHostMemory;
    private boolean allowPeerMemory;
    private boolean allowPolls;
    private boolean resumeOnExit;
    private CriuSettings criuOptions;
    private @Nullable ImageKey imageKey;

    private Builder(EngineContext from) {
      this.cuda = from.cuda();
      this.gpus = from.gpus();
      this.criu = from.criuSource();
      this.listener = from.listener();
      this.timeouts = from.timeouts();
      this.state = from.state();
      this.driverHook = from.driverHook();
      this.hostMemory = from.hostMemory();
      this.allowPeerMemory = from.allowPeerMemory();
      this.allowPolls = from.allowPolls();
      this.resumeOnExit = from.resumeOnExit();
      this.criuOptions = from.criuOptions();
      this.imageKey = from.imageKey();
    }

    /**
     * Sets the CUDA driver, and the inventory of the GPUs of the same machine.
     *
     * @param driver by default this machine's libcuda
     * @param inventory by default this machine's NVML
     * @return this builder
     */
    public Builder cuda(CudaDriver driver, GpuInventory inventory) {
      this.cuda = requireNonNull(driver, "driver");
      this.gpus = requireNonNull(inventory, "inventory");
      return this;
    }

    /**
     * Sets the directory that has {@code libcuda.so.1} and {@code libnvidia-ml.so.1}, for example a
     * simulated driver.
     *
     * @param directory by default the dynamic loader finds them
     * @return this builder
     */
    public Builder cuda(Path directory) {
      return cuda(LibCuda.in(directory), LibNvml.in(directory));
    }

    /**
     * Sets the CRIU driver.
     *
     * @param driver by default the first that the service loader finds
     * @return this builder
     */
    public Builder criu(CriuDriver driver) {
      requireNonNull(driver, "driver");
      this.criu = () -> driver;
      return this;
    }

    /**
     * Sets the listener that is notified of every step.
     *
     * @param listener by default none
     * @return this builder
     */
    public Builder listener(StepListener listener) {
      this.listener = requireNonNull(listener, "listener");
      return this;
    }

    /**
     * Sets how long driver calls may take.
     *
     * @param timeouts by default {@link Timeouts#ofDefaults()}
     * @return this builder
     */
    public Builder timeouts(Timeouts timeouts) {
      this.timeouts = requireNonNull(timeouts, "timeouts");
      return this;
    }

    /**
     * Sets the directory in which the JVMs of this machine lock the processes that they work on,
     * and note, for {@link #recover()}, which processes are not running because of them.
     * Controllers with different state directories know nothing of each other: two of them can work
     * on the same process, and neither recovers what the other left.
     *
     * <p>The directory must belong to the user of this JVM, and no other user may be able to write
     * to it or to put another one in its place; it must not be a symbolic link. Otherwise verbs
     * that take a process away from running are refused with {@link
     * dev.gpuprocess.error.FixAndRetryException} and reason STATE_DIRECTORY.
     *
     * @param directory created when needed. By default {@code GPUPROCESS_STATE_DIR}, else {@code
     *     /run/gpuprocess}; for a user without the right to write to {@code /run}, {@code
     *     gpuprocess} in {@code XDG_RUNTIME_DIR} or {@code /run/user/UID}, else a directory of that
     *     user's among the temporary files
     * @return this builder
     */
    public Builder stateDirectory(Path directory) {
      this.state = new StateDirectory(directory);
      return this;
    }

    /**
     * Sets whether the driver's copies are divided among threads. By itself it copies GPU memory to
     * the host and back by one thread, with the C library's {@code memcpy}. For the time of a
     * checkpoint or restore the addresses of {@code memcpy}, {@code memmove} and {@code mmap} in
     * the table of imports of the process's libcuda are replaced by those of a routine that is put
     * into the process, which divides these copies among threads that are started for it and ends
     * with them. All other copies, and all other threads, are served as before. On an H100 a
     * suspend of 16 GiB takes a tenth of the time that way, and a resume a fifth. A process whose
     * controller is killed goes on.
     *
     * <p>It needs the right to trace the process (root or CAP_SYS_PTRACE) on x86_64. Where it
     * cannot be had, and for less than 256 MiB, the driver copies alone, and the {@link
     * dev.gpuprocess.report.Step#note() note} of the step says why.
     *
     * @param hook false for the driver alone; true by default
     * @return this builder
     */
    public Builder driverHook(boolean hook) {
      this.driverHook = hook;
      return this;
    }

    /**
     * Sets the host memory that takes the GPU memory of suspended processes. It is made beforehand,
     * in huge pages and by several threads, and is a file, so that a dump need not copy it out of
     * the process: into an image on the same tmpfs it goes by a link, to a disk with direct I/O,
     * and that of a {@linkplain RunningProcess#snapshot(Path, DumpOptions) snapshot} when the
     * process runs again.
     *
     * <p>Needs {@link #driverHook}. There is enough for all members of a process, or none is used.
     * The memory is made by {@link #build}, and shared by all settings that this builder builds and
     * that are derived from them. It is freed when none of them is in use any more.
     *
     * @param memory by default {@link HostMemory#automatic()}
     * @return this builder
     */
    public Builder hostMemory(HostMemory memory) {
      this.newHostMemory = requireNonNull(memory, "memory");
      return this;
    }

    /**
     * Sets whether processes are checkpointed although they may map each other's GPU memory, as the
     * ranks of NCCL do unless they are configured otherwise. Driver 580 checkpoints such processes
     * and cannot restore them, so that they are lost; only driver 610 and later carry such memory,
     * of jobs with a job file. Processes are refused that talk through NCCL (2.19 or later) on this
     * machine and were started without {@code NCCL_P2P_DISABLE=1 NCCL_NVLS_ENABLE=0
     * NCCL_SHM_DISABLE=1} in their environment. Settings that they make for themselves later, or in
     * {@code nccl.conf}, are not seen.
     *
     * @param allow true for ranks that are known to do without; false by default
     * @return this builder
     */
    public Builder allowPeerMemory(boolean allow) {
      this.allowPeerMemory = allow;
      return this;
    }

    /**
     * Sets whether processes are checkpointed although they poll the driver and their polls cannot
     * be made to wait. The driver's lock does not block calls such as {@code cuStreamQuery}, and a
     * process that makes one during a checkpoint dies of SIGSEGV. So a small page of code in the
     * process makes them wait. A process that may not map code ({@code PR_SET_MDWE}), whose seccomp
     * filter forbids a call, that is traced by a debugger, or whose libcuda is of an unknown kind
     * cannot be given that page. If one of its threads is seen in such a call, the checkpoint is
     * refused with {@link dev.gpuprocess.error.FixAndRetryException} and reason POLLS, and the
     * process is not touched. If none is seen, it is checkpointed, and the {@link
     * dev.gpuprocess.report.Step#note() note} of the step says that polls do not wait. A process
     * that this user may not trace cannot be looked at, and counts as one that does not poll.
     *
     * @param allow true to take the risk that the process dies; false by default
     * @return this builder
     */
    public Builder allowPolls(boolean allow) {
      this.allowPolls = allow;
      return this;
    }

    /**
     * Sets whether the exit of this JVM resumes the processes that it has locked or suspended with
     * these settings. A program that is ended by a signal (SIGTERM, SIGINT), by {@link System#exit}
     * or by the end of its last thread leaves no {@code try} block, so it does not close the state
     * objects in it, and their processes stay suspended.
     *
     * <p>With {@code true} a shutdown hook resumes them, side by side. A lock or suspend that is
     * under way is ended early and undone. A dump, snapshot or any other verb that is under way is
     * waited for, and what it leaves suspended is resumed. What another controller has moved since
     * is not touched, nor is a process that was found suspended and one that was restored from an
     * image. Verbs that would suspend something are refused during the exit with {@link
     * dev.gpuprocess.error.OperationCancelledException}.
     *
     * <p>The hook takes at most {@link Timeouts#lock()}, {@link Timeouts#call()} and {@link
     * Timeouts#memory()} together, 50 seconds by default: GPU memory may have to come free, and a
     * restore of a large process takes long. What is not done then is left to {@link
     * GpuCheckpoints#recover()}, as after a SIGKILL. What stops the program must allow it that time
     * ({@code TimeoutStopSec} of systemd, {@code terminationGracePeriodSeconds} of Kubernetes).
     *
     * <p>The default is {@code false}, because the library cannot distinguish a {@code try} block
     * from a plain call, and a program that suspends a process and exits, as a command-line tool
     * does, means it to stay suspended.
     *
     * @param resume true for programs that hold suspended processes in {@code try} blocks
     * @return this builder
     */
    public Builder resumeOnExit(boolean resume) {
      this.resumeOnExit = resume;
      return this;
    }

    /**
     * Sets options of CRIU for all dumps, snapshots and restores, those of slots and plans too.
     * Options of one call override them, and they override those that an image remembers of its
     * dump and the administrator's file: the file named by the system property {@code
     * gpuprocess.criu.conf} or the environment variable {@code GPUPROCESS_CRIU_CONF}, or else
     * {@code /etc/gpuprocess/criu.conf}, with a setting in each line as {@link
     * CriuOptions.Builder#set} reads it. The file is read at each dump and restore, and refused
     * with {@link dev.gpuprocess.error.FixAndRetryException} and reason UNSUPPORTED_OPTION if
     * others than root and this user could have written it.
     *
     * @param options {@link CriuOptions#ofDefaults()} by default
     * @return this builder
     */
    public Builder criuOptions(CriuOptions options) {
      this.criuOptions =
          new CriuSettings(requireNonNull(options, "options"), criuOptions.allowedLosses());
      return this;
    }

    /**
     * Allows losses for all dumps and snapshots, those of slots and plans too, besides those of
     * each call ({@link dev.gpuprocess.options.DumpOptions.Builder#allowLoss}).
     *
     * @param attributes replace the ones allowed before; none by default
     * @return this builder
     */
    public Builder allowLoss(Attribute... attributes) {
      this.criuOptions = new CriuSettings(criuOptions.program(), Set.of(attributes));
      return this;
    }

    /**
     * Sets a key with which images are signed, for images that leave this machine or are stored
     * where others can write. The manifest is then authenticated by a code (HMAC-SHA256) that
     * cannot be made without the key, and lists SHA-256 checksums of the files; an image without
     * the right code is not opened. Signing does not prevent that an older signed image is put
     * where a newer one was ({@link dev.gpuprocess.options.RestoreOptions.Builder#expectLabel}
     * does). Make a key with {@code (umask 077; head -c 32 /dev/urandom > image.key)}.
     *
     * @param file 32 to 4096 bytes that only root or the user of this JVM can read, in a directory
     *     that only they can write to; read now. Null, the default, for none
     * @return this builder
     * @throws dev.gpuprocess.error.ImageException with reason NOT_TRUSTED when others can read or
     *     replace the file, or its length is wrong, or it cannot be read
     */
    public Builder imageKey(@Nullable Path file) {
      this.imageKey = file == null ? null : ImageKey.read(file);
      return this;
    }

    /**
     * Builds the settings. The builder can be used again.
     *
     * @return an immutable object
     * @throws dev.gpuprocess.error.MachineUnfitException with reason CLASS_LOADING when the classes
     *     of this library lie in a directory and one of them cannot be loaded
     */
    public GpuCheckpoints build() {
      LibraryClasses.load();
      if (newHostMemory != null) {
        hostMemory = new HostMemoryPool(newHostMemory);
        newHostMemory = null;
      }
      return new GpuCheckpoints(
          new EngineContext(
              cuda,
              gpus,
              criu,
              listener,
              timeouts,
              state,
              driverHook,
              hostMemory,
              allowPeerMemory,
              allowPolls,
              resumeOnExit,
              criuOptions,
              imageKey));
    }
  }

  /**
   * Mends what dead controllers left: unlocks the processes that they had locked, returns those
   * that they had checkpointed, and processes of which one member was checkpointed as a whole, ends
   * those that CRIU had only half restored and launched processes that were to end with their
   * controller, and removes incomplete images. It does not touch what belongs to a live controller,
   * which is recognized by pid and start time; this JVM removes what it could not remove before.
   * May be called at any time, any number of times.
   *
   * @return one entry for each process in the journal
   * @throws dev.gpuprocess.error.OperationTimedOutException when another recovery is under way and
   *     does not end within {@link Timeouts#transfer()}
   * @throws dev.gpuprocess.error.FixAndRetryException with reason STATE_DIRECTORY when the journal
   *     cannot be read
   */
  public List<Recovered> recover() {
    Map<StateHandle, CheckpointedProcess> suspended = new HashMap<>();
    List<Recovered> all = new ArrayList<>();
    for (RecoveredProcess found : new Recovery(context).run()) {
      StateHandle left = found.suspended();
      all.add(
          new Recovered(
              found.process(),
              found.outcome(),
              left == null ? null : suspended.computeIfAbsent(left, CheckpointedProcess::new)));
    }
    return all;
  }

  /**
   * Lists the processes that use a GPU of this machine, and those that are suspended from one:
   * those that NVML lists, those in the journal, and those that have libcuda mapped and CUDA state
   * by what the driver answers. Only reads: it takes no lock, delays no verb and changes nothing.
   * Processes of other users are listed as far as they can be seen. A process that is stopped, or
   * moved by a verb just now, is not asked for its state, and the {@linkplain ListedProcess#note()
   * note} says so. Takes up to three times {@link Timeouts#call()} where something does not answer.
   * May be called from any thread.
   *
   * @return the processes by pid; empty where there are none, and where nothing here can tell
   */
  public List<ListedProcess> processes() {
    return new ProcessList(context).all();
  }

  /**
   * Lists the processes that a controller keeps from running, as the journal in the state directory
   * records them. Only reads the journal: unlike {@link #recover()} it mends nothing, and unlike
   * {@link #processes()} it does not ask the driver. A process that cannot be seen from this pid
   * namespace, or has ended, is left out. May be called from any thread.
   *
   * @return the processes by pid
   * @throws dev.gpuprocess.error.FixAndRetryException with reason STATE_DIRECTORY when the journal
   *     cannot be read
   */
  public List<SuspendedProcess> suspended() {
    return new ProcessList(context).suspended();
  }

  /**
   * Reports what works on this machine and what does not, each with its cure: the CUDA driver and
   * its checkpoint functions, GPUs, CRIU, kernel, privileges, memory, directories. Changes nothing.
   * Never throws because of what it examines; something that does not answer in time is a finding
   * too.
   *
   * @return the findings; {@link Diagnosis#isHealthy()} when none of them is a problem
   */
  public Diagnosis doctor() {
    return new Doctor(context).ofMachine(null);
  }

  /**
   * Reports the same as {@link #doctor()}, and whether images can be made in a directory.
   *
   * @param images where images are to be made
   * @return the findings
   */
  public Diagnosis doctor(Path images) {
    return new Doctor(context).ofMachine(images);
  }

  /**
   * Reports the state of a process, and what would stop a suspend, a resume or a dump of it and its
   * descendants, each with its cure. Changes nothing, and never throws because of what it examines.
   *
   * @param pid any number
   * @return the findings; {@link Diagnosis#isHealthy()} when nothing stands in the way
   */
  public Diagnosis doctor(long pid) {
    return new Doctor(context).ofProcess(pid, null, DumpOptions.ofDefaults());
  }

  /**
   * Reports the same as {@link #doctor(long)} for a dump with these options to this directory.
   *
   * @param pid any number
   * @param image where the image would be, as for {@link CheckpointedProcess#dump(Path)}
   * @param options how it would be dumped
   * @return the findings
   */
  public Diagnosis doctor(long pid, Path image, DumpOptions options) {
    return new Doctor(context).ofProcess(pid, image, options);
  }

  /**
   * Counts the driver calls of this JVM that outlived their deadline and have not returned yet, or
   * are being undone. Each is on a daemon thread that is named after it; the JVM may exit at the
   * same time, and {@link #recover()} finds what they did.
   *
   * @return how many. With four about one process or disk, or 1024 in all, no new work is begun
   *     there, except to bring a process back to running. Reads of a state are counted, at most one
   *     for each process, and prevent nothing
   */
  public static int abandonedCalls() {
    return BoundedCall.abandoned() + StateReading.leftBehind();
  }
}
