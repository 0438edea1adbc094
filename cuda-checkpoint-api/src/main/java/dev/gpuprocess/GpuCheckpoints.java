package dev.gpuprocess;

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
import dev.gpuprocess.internal.call.BoundedInventory;
import dev.gpuprocess.internal.call.StateReading;
import dev.gpuprocess.internal.doctor.Doctor;
import dev.gpuprocess.internal.engine.DriverOperation;
import dev.gpuprocess.internal.engine.StateHandle;
import dev.gpuprocess.internal.engine.TrackedProcess;
import dev.gpuprocess.internal.journal.Journal;
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
 * {@link #process}, {@link #inspect} and {@link #open}. Immutable; each {@code with} method gives a
 * changed copy.
 *
 * @param cuda the CUDA driver
 * @param gpus which GPUs there are and what is free on them
 * @param criuSource gives the CRIU driver; asked at the first dump or restore
 * @param listener told of every step
 * @param timeouts how long driver calls may take
 * @param stateDirectory where it is written which processes are not running because of us, for
 *     {@link #recover()}, and where the JVMs of this machine lock the processes they are at
 * @param imageKey signs the images that are made and is asked of those that are opened; null for
 *     none
 */
public record GpuCheckpoints(
    CudaDriver cuda,
    GpuInventory gpus,
    Supplier<CriuDriver> criuSource,
    StepListener listener,
    Timeouts timeouts,
    Path stateDirectory,
    @Nullable ImageKey imageKey) {

  private static final GpuCheckpoints STANDARD =
      new GpuCheckpoints(
          LibCuda.system(),
          LibNvml.system(),
          GpuCheckpoints::findCriu,
          StepListener.NONE,
          Timeouts.ofDefaults(),
          StateDirectory.standard().path(),
          null);

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
    TrackedProcess target = TrackedProcess.of(this, pid, "inspect");
    BoundedCall.admit(target.identity, "inspect");
    DriverOperation verb = new DriverOperation(target, "inspect", null);
    verb.awaitCriu(target.identity);
    target.requireReachable("inspect");
    ProcessState state = target.look(verb);
    StateHandle self = StateHandle.next(target, List.of());
    return switch (state) {
      case RUNNING -> new RunningProcess(self);
      case LOCKED -> new LockedProcess(self);
      case CHECKPOINTED -> new CheckpointedProcess(self);
      case FAILED -> new FailedProcess(self);
      default ->
          throw new WrongStateException(
              "process %s is %s: wait until its controller is done".formatted(pid, state),
              verb.failure(null, state));
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
    return ProcessImage.open(this, directory);
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
    return criuSource.get();
  }

  /**
   * With another CUDA driver.
   *
   * @param driver in place of this machine's libcuda
   * @param inventory of the same machine
   * @return a copy
   */
  public GpuCheckpoints with(CudaDriver driver, GpuInventory inventory) {
    return new GpuCheckpoints(
        driver, inventory, criuSource, listener, timeouts, stateDirectory, imageKey);
  }

  /**
   * With another CRIU driver.
   *
   * @param driver in place of the one that the service loader finds
   * @return a copy
   */
  public GpuCheckpoints with(CriuDriver driver) {
    return new GpuCheckpoints(
        cuda, gpus, () -> driver, listener, timeouts, stateDirectory, imageKey);
  }

  /**
   * With another listener.
   *
   * @param other told of every step
   * @return a copy
   */
  public GpuCheckpoints with(StepListener other) {
    return new GpuCheckpoints(cuda, gpus, criuSource, other, timeouts, stateDirectory, imageKey);
  }

  /**
   * With other timeouts.
   *
   * @param other how long driver calls may take
   * @return a copy
   */
  public GpuCheckpoints with(Timeouts other) {
    return new GpuCheckpoints(cuda, gpus, criuSource, listener, other, stateDirectory, imageKey);
  }

  /**
   * With another state directory. Controllers know of each other only in the same one: with
   * another, two can be at the same process, and neither finds what the other left. It must belong
   * to the user of this JVM, and nobody else may be able to write in it or put another one in its
   * place; a link is not followed. Otherwise what leads away from running is refused with {@link
   * dev.gpuprocess.error.StateDirectoryException}. The default is {@code GPUPROCESS_STATE_DIR},
   * else {@code /run/gpuprocess}; for who may not write there {@code gpuprocess} in {@code
   * XDG_RUNTIME_DIR} or {@code /run/user/UID}, else a directory of the user among the temporary
   * files.
   *
   * @param directory made when needed
   * @return a copy
   */
  public GpuCheckpoints withStateDirectory(Path directory) {
    return new GpuCheckpoints(cuda, gpus, criuSource, listener, timeouts, directory, imageKey);
  }

  /**
   * With a key. Images are signed with it from now on, and those without its signature are not
   * opened.
   *
   * @param key for images that leave this machine or lie where others write
   * @return a copy
   */
  public GpuCheckpoints withImageKey(ImageKey key) {
    return new GpuCheckpoints(cuda, gpus, criuSource, listener, timeouts, stateDirectory, key);
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
    return new Recovery(this, journal()).run();
  }

  /**
   * Says what works on this machine and what does not, each with its cure: the CUDA driver and its
   * checkpoint functions, GPUs, CRIU, kernel, rights, memory, directories. Touches nothing. It
   * never throws for what it looks at, and what does not answer in time is a finding too.
   *
   * @return what was found; {@link Diagnosis#isHealthy()} when nothing is a problem
   */
  public Diagnosis doctor() {
    return new Doctor(this).ofMachine(null);
  }

  /**
   * The same, and whether images can be made in a directory.
   *
   * @param images where images are to be made
   * @return what was found
   */
  public Diagnosis doctor(Path images) {
    return new Doctor(this).ofMachine(images);
  }

  /**
   * Says what state a process is in and what would stop a suspend, a resume or a dump of it and its
   * descendants, each with its cure. Touches nothing, and never throws for what it looks at.
   *
   * @param pid any number
   * @return what was found; {@link Diagnosis#isHealthy()} when nothing stands in the way
   */
  public Diagnosis doctor(long pid) {
    return new Doctor(this).ofProcess(pid, null, DumpOptions.ofDefaults());
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
    return new Doctor(this).ofProcess(pid, image, options);
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

  /** What the verbs ask, so that they cannot hang on it. */
  GpuInventory inventory() {
    return new BoundedInventory(gpus, timeouts.call());
  }

  Journal journal() {
    return new Journal(state());
  }

  /** Where this machine's controllers meet. */
  StateDirectory state() {
    return new StateDirectory(stateDirectory);
  }
}
