package dev.gpuprocess;

import static java.util.Objects.requireNonNull;

import dev.gpuprocess.cuda.CudaDriver;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.cuda.jnr.LibCuda;
import dev.gpuprocess.cuda.jnr.LibNvml;
import dev.gpuprocess.doctor.Diagnosis;
import dev.gpuprocess.error.CriuUnavailableException;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.WrongStateException;
import dev.gpuprocess.gpu.GpuInventory;
import dev.gpuprocess.image.ImageKey;
import dev.gpuprocess.internal.call.BoundedCall;
import dev.gpuprocess.internal.call.StateReading;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.doctor.Doctor;
import dev.gpuprocess.internal.engine.DriverOperation;
import dev.gpuprocess.internal.engine.StateHandle;
import dev.gpuprocess.internal.lock.StateDirectory;
import dev.gpuprocess.internal.recovery.Recovery;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.Timeouts;
import dev.gpuprocess.progress.StepListener;
import dev.gpuprocess.spi.CriuDriver;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.ServiceConfigurationError;
import java.util.ServiceLoader;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * The drivers and settings behind every verb. {@link GpuProcess#of} and {@link ProcessImage#open}
 * use {@link #standard()}; a program with other drivers or settings makes its own and starts from
 * {@link #process}, {@link #inspect} and {@link #open}. Immutable.
 */
public final class GpuCheckpoints {

  private static final GpuCheckpoints STANDARD =
      new GpuCheckpoints(
          new EngineContext(
              LibCuda.system(),
              LibNvml.system(),
              GpuCheckpoints::findCriu,
              StepListener.NONE,
              Timeouts.ofDefaults(),
              StateDirectory.standard(),
              null));

  private final EngineContext context;

  private GpuCheckpoints(EngineContext context) {
    this.context = context;
  }

  /**
   * The drivers of this machine: libcuda and NVML as the dynamic loader finds them, and the CRIU
   * driver on the class path or module path. Nothing is loaded before it is needed.
   *
   * @return the one that {@link GpuProcess#of} uses
   */
  public static GpuCheckpoints standard() {
    return STANDARD;
  }

  private static CriuDriver findCriu() {
    Failure failure = Failure.of("find CRIU", 0);
    try {
      return ServiceLoader.load(CriuDriver.class)
          .findFirst()
          .orElseThrow(
              () ->
                  new CriuUnavailableException(
                      "no CriuDriver is on the class path or module path: add the dependency dev.gpuprocess:criu-driver",
                      failure));
    } catch (ServiceConfigurationError e) {
      throw new CriuUnavailableException(
          "the CriuDriver on the class path or module path cannot be loaded: " + e.getMessage(),
          failure,
          e);
    }
  }

  /**
   * Takes a running process.
   *
   * @param pid a process that uses CUDA
   * @return the process
   * @see GpuProcess#of
   */
  public RunningProcess process(long pid) {
    GpuProcess found = inspect(pid);
    if (found instanceof RunningProcess running) {
      return running;
    }
    throw new WrongStateException(
        "process %s is %s already; take it with GpuProcess.inspect(%s)"
            .formatted(pid, found.state(), pid),
        new Failure("of", pid, found.state(), found.state(), Duration.ZERO, null));
  }

  /**
   * Takes a process in whatever state it is.
   *
   * @param pid a process that uses CUDA
   * @return an object of its state's type
   * @throws dev.gpuprocess.error.OperationInProgressException when a verb is under way on it for
   *     longer than {@link Timeouts#call()}: the driver tells a state only between two moves. May
   *     be asked as often as one likes, from any thread: one call is out for each process, and it
   *     is in no verb's way
   * @see GpuProcess#inspect
   */
  public GpuProcess inspect(long pid) {
    DriverOperation operation = DriverOperation.reading(context, pid, "inspect");
    ProcessState state = operation.look();
    StateHandle self = StateHandle.next(operation.target(), List.of());
    return switch (state) {
      case RUNNING -> new RunningProcess(self);
      case LOCKED -> new LockedProcess(self);
      case CHECKPOINTED -> new CheckpointedProcess(self);
      case FAILED -> new FailedProcess(self);
      default ->
          throw new WrongStateException(
              "process %s is %s: wait until its controller is done".formatted(pid, state),
              operation.failure(null, state));
    };
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
   * The CRIU driver: the one handed in, or else the first that the service loader finds. The one of
   * this library talks to CRIU over its RPC, or by its command line where only that is possible.
   *
   * @return the driver
   * @throws CriuUnavailableException when none is on the class path or module path, or it cannot be
   *     loaded
   */
  public CriuDriver criu() {
    return context.criu();
  }

  /**
   * The CUDA driver.
   *
   * @return the one that every verb calls
   */
  public CudaDriver cuda() {
    return context.cuda();
  }

  /**
   * Which GPUs there are and what is free on them.
   *
   * @return the inventory that is asked before every restore
   */
  public GpuInventory gpus() {
    return context.gpus();
  }

  /**
   * Where controllers meet, and write down what they are about to do.
   *
   * @return the state directory; it may not be there yet
   */
  public Path stateDirectory() {
    return context.state().path();
  }

  EngineContext context() {
    return context;
  }

  /**
   * Settings like these, to be changed.
   *
   * @return a builder
   */
  public Builder toBuilder() {
    return new Builder(context);
  }

  /**
   * The settings of {@link #standard()}, to be changed.
   *
   * @return a builder
   */
  public static Builder builder() {
    return STANDARD.toBuilder();
  }

  /** Settings that differ from those it began with. For one thread. */
  public static final class Builder {

    private CudaDriver cuda;
    private GpuInventory gpus;
    private Supplier<CriuDriver> criu;
    private StepListener listener;
    private Timeouts timeouts;
    private StateDirectory state;
    private @Nullable ImageKey imageKey;

    private Builder(EngineContext from) {
      this.cuda = from.cuda();
      this.gpus = from.gpus();
      this.criu = from.criuSource();
      this.listener = from.listener();
      this.timeouts = from.timeouts();
      this.state = from.state();
      this.imageKey = from.imageKey();
    }

    /**
     * The CUDA driver, and the GPUs of the same machine.
     *
     * @param driver this machine's libcuda by default
     * @param inventory this machine's NVML by default
     * @return this builder
     */
    public Builder cuda(CudaDriver driver, GpuInventory inventory) {
      this.cuda = requireNonNull(driver, "driver");
      this.gpus = requireNonNull(inventory, "inventory");
      return this;
    }

    /**
     * The CRIU driver.
     *
     * @param driver the first that the service loader finds by default
     * @return this builder
     */
    public Builder criu(CriuDriver driver) {
      requireNonNull(driver, "driver");
      this.criu = () -> driver;
      return this;
    }

    /**
     * Who is told of every step.
     *
     * @param listener nobody by default
     * @return this builder
     */
    public Builder listener(StepListener listener) {
      this.listener = requireNonNull(listener, "listener");
      return this;
    }

    /**
     * How long driver calls may take.
     *
     * @param timeouts {@link Timeouts#ofDefaults()} by default
     * @return this builder
     */
    public Builder timeouts(Timeouts timeouts) {
      this.timeouts = requireNonNull(timeouts, "timeouts");
      return this;
    }

    /**
     * Where it is written down which processes are not running because of us, for {@link
     * #recover()}, and where the JVMs of this machine lock the processes that they work on.
     * Controllers know of each other only in the same one: with another, two can work on the same
     * process, and neither finds what the other left. It must belong to the user of this JVM, and
     * nobody else may be able to write in it or put another one in its place; a link is not
     * followed. Otherwise what leads away from running is refused with {@link
     * dev.gpuprocess.error.StateDirectoryException}.
     *
     * @param directory made when needed; by default {@code GPUPROCESS_STATE_DIR}, else {@code
     *     /run/gpuprocess}; for a user who may not write there {@code gpuprocess} in {@code
     *     XDG_RUNTIME_DIR} or {@code /run/user/UID}, else a directory of the user among the
     *     temporary files
     * @return this builder
     */
    public Builder stateDirectory(Path directory) {
      this.state = new StateDirectory(directory);
      return this;
    }

    /**
     * A key. Images are signed with it, and those without its signature are not opened.
     *
     * @param key for images that leave this machine or lie where others write; null, the default,
     *     for none
     * @return this builder
     */
    public Builder imageKey(@Nullable ImageKey key) {
      this.imageKey = key;
      return this;
    }

    /**
     * Makes the settings; the builder can be used again.
     *
     * @return an immutable object
     */
    public GpuCheckpoints build() {
      return new GpuCheckpoints(
          new EngineContext(cuda, gpus, criu, listener, timeouts, state, imageKey));
    }
  }

  /**
   * Mends what controllers left that died: unlocks what they had locked, offers what they had
   * checkpointed, ends what CRIU had restored by half, removes half images. Leaves alone what
   * belongs to a controller that lives, told by pid and start time. May be called at any time, any
   * number of times.
   *
   * @return one entry for each process that the journal names
   */
  public List<Recovered> recover() {
    return new Recovery(context)
        .run().stream()
            .map(
                found ->
                    new Recovered(
                        found.process(),
                        found.outcome(),
                        found.suspended() == null
                            ? null
                            : new CheckpointedProcess(found.suspended())))
            .toList();
  }

  /**
   * Says what works on this machine and what does not, each with its cure: the CUDA driver and its
   * checkpoint functions, GPUs, CRIU, kernel, rights, memory, directories. Touches nothing. It
   * never throws for what it looks at, and what does not answer in time is a finding too.
   *
   * @return what was found; {@link Diagnosis#isHealthy()} when nothing is a problem
   */
  public Diagnosis doctor() {
    return new Doctor(context).ofMachine(null);
  }

  /**
   * The same, and whether images can be made in a directory.
   *
   * @param images where images are to be made
   * @return what was found
   */
  public Diagnosis doctor(Path images) {
    return new Doctor(context).ofMachine(images);
  }

  /**
   * Says what state a process is in and what would stop a suspend, a resume or a dump of it and its
   * descendants, each with its cure. Touches nothing, and never throws for what it looks at.
   *
   * @param pid any number
   * @return what was found; {@link Diagnosis#isHealthy()} when nothing stands in the way
   */
  public Diagnosis doctor(long pid) {
    return new Doctor(context).ofProcess(pid, null, DumpOptions.ofDefaults());
  }

  /**
   * The same for a dump with these options to this place.
   *
   * @param pid any number
   * @param image where the image would be, as for {@link CheckpointedProcess#dump(Path)}
   * @param options how it would be dumped
   * @return what was found
   */
  public Diagnosis doctor(long pid, Path image, DumpOptions options) {
    return new Doctor(context).ofProcess(pid, image, options);
  }

  /**
   * Driver calls that outlived their deadline and have not returned yet, or are being undone, in
   * the whole JVM. Each sits on a daemon thread named after it; the JVM may exit meanwhile, and
   * {@link #recover()} finds what they did.
   *
   * @return how many. With four about one process or disk, or 1024 in all, nothing new is begun
   *     there; what brings a process back to running always is. Questions for a state are counted,
   *     at most one for each process, and stop nothing
   */
  public static int abandonedCalls() {
    return BoundedCall.abandoned() + StateReading.leftBehind();
  }
}
