package dev.gpuprocess.internal.dump;

import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.dumped.DumpReport;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.MigrationFailedException;
import dev.gpuprocess.error.MigrationInDoubtException;
import dev.gpuprocess.error.OperationCancelledException;
import dev.gpuprocess.image.ImageFile;
import dev.gpuprocess.image.ImageMachine;
import dev.gpuprocess.image.Manifest;
import dev.gpuprocess.internal.call.BoundedCall;
import dev.gpuprocess.internal.call.BoundedDiskTask;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.engine.JobFailures;
import dev.gpuprocess.internal.engine.JobOperation;
import dev.gpuprocess.internal.engine.StateHandle;
import dev.gpuprocess.internal.engine.StepRecorder;
import dev.gpuprocess.internal.engine.TrackedJob;
import dev.gpuprocess.internal.handover.MemoryHandOver;
import dev.gpuprocess.internal.launch.Departure;
import dev.gpuprocess.internal.lock.ProcessLock;
import dev.gpuprocess.internal.machine.MachineSurvey;
import dev.gpuprocess.internal.os.DurableFiles;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ScanLimit;
import dev.gpuprocess.internal.store.LogDirectory;
import dev.gpuprocess.internal.store.StagedImage;
import dev.gpuprocess.internal.time.Durations;
import dev.gpuprocess.internal.wire.FileTransfer;
import dev.gpuprocess.internal.wire.Kind;
import dev.gpuprocess.internal.wire.LocalPort;
import dev.gpuprocess.internal.wire.Message;
import dev.gpuprocess.internal.wire.Offer;
import dev.gpuprocess.internal.wire.PageRelay;
import dev.gpuprocess.internal.wire.RefusedException;
import dev.gpuprocess.internal.wire.Wire;
import dev.gpuprocess.internal.wire.Wires;
import dev.gpuprocess.options.Cancellation;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.PageEndpoint;
import dev.gpuprocess.process.ProcessIdentity;
import dev.gpuprocess.progress.MigrationReport;
import dev.gpuprocess.spi.DumpListener;
import dev.gpuprocess.spi.DumpMemory;
import dev.gpuprocess.spi.DumpRequest;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Optional;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Dumps a checkpointed process or job to another host, which is the last that happens to it here.
 * CRIU may kill it only when the other host has said that it has what it needs. All goes over one
 * connection: CRIU's own ends with the memory, and nobody would know whether it arrived.
 */
public final class Migration {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  private static final String VERB = "migrate";

  /** Room for all of an image but its memory. */
  private static final long FILES_BYTES = 64 << 20;

  /** What the receiver answers is requests and receipts of some bytes. */
  private static final long ANSWERS_BYTES = 4L << 30;

  /** When the time of the dump is over, the two hosts have this long to tell each other. */
  private static final Duration LAST_WORDS = Duration.ofSeconds(10);

  private final JobOperation operation;
  private final TrackedJob job;
  private final ProcessIdentity root;
  private final EngineContext context;
  private final PageEndpoint receiver;
  private final Optional<Isolation> isolation;
  private final DumpOptions options;
  private final StepRecorder steps;
  private @Nullable Function<List<ImageFile>, Manifest> draft;
  private @Nullable PageRelay relay;
  private @Nullable RuntimeException notDelivered;

  /** From here on a failure does not say by itself that the other host has nothing. */
  private boolean isThere;

  private Migration(
      JobOperation operation, PageEndpoint receiver, DumpOptions options, StepRecorder steps) {
    this.operation = operation;
    this.job = operation.job();
    this.root = job.root;
    this.context = job.context;
    this.receiver = receiver;
    this.isolation = Isolation.of(root.pid());
    this.options = isolation.map(found -> found.with(options)).orElse(options);
    this.steps = steps;
  }

  /** Moves a checkpointed process or job as one verb. */
  public static MigrationReport of(StateHandle self, PageEndpoint receiver, DumpOptions options) {
    if (!options.endsTree()) {
      throw new IllegalArgumentException(
          "a process that moves to another host cannot stay: migrate without leaveRunning and leaveStopped");
    }
    if (receiver.port() == 0) {
      throw new IllegalArgumentException("the port of the receiver has to be known: " + receiver);
    }
    self.job().members().forEach(each -> BoundedCall.requireCapacity(each.identity, VERB));
    return self.job()
        .exclusively(
            VERB,
            ProcessLock.Kind.MOVE,
            self.generation(),
            operation -> {
              StepRecorder steps = self.measured();
              operation.measuredBy(steps);
              operation.require(ProcessState.CHECKPOINTED);
              try {
                Migration migration = new Migration(operation, receiver, options, steps);
                operation.atCriu(migration::depart);
                steps.rethrow();
                return new MigrationReport(receiver, steps.taken());
              } catch (RuntimeException e) {
                JobFailures.tell(operation, e);
                throw e;
              }
            });
  }

  /** A job that was launched here has not ended because it is elsewhere. */
  private void depart() {
    try (Departure departure = Departure.of(root)) {
      move();
      departure.done();
      int unused = job.advance();
      job.forget();
    }
  }

  private void move() {
    LogDirectory log = LogDirectory.planned(VERB);
    Path place = log.path().resolve("image");
    BoundedDiskTask disk = new BoundedDiskTask(VERB, root.pid(), place, options.deadline());
    disk.requireCapacity();
    ScanLimit limit = ScanLimit.of(VERB, root.pid(), options.deadline());
    TreeCheck.requireInTree(operation);
    TreeCheck tree = new TreeCheck(operation, limit, options.releaseInheritedGpu());
    final List<ProcessIdentity> holders = tree.require();
    DumpOptions inTime = options.toBuilder().deadline(limit.remaining()).build();
    List<ProcessIdentity> members = job.members().stream().map(each -> each.identity).toList();
    DumpCheck check = new DumpCheck(context, root, members, place, inTime, false);
    check.requireSupported(
        context.criu(), "stays checkpointed", operation.failure(null, ProcessState.CHECKPOINTED));
    try (Wire wire = connected(limit.remaining())) {
      steps.run("offer", 0, () -> offer(wire, check.bytes()));
      new ReleaseStep(operation, steps, limit, tree).run(holders);
      takeBack(limit);
      job.note(VERB, place, log.path());
      send(wire, place, log, disk);
    } catch (RuntimeException e) {
      operation.noteStates();
      throw e;
    }
  }

  private Wire connected(Duration left) {
    try {
      return Wires.to(receiver, context.imageKey(), left, Durations.plus(left, LAST_WORDS));
    } catch (IOException e) {
      throw failed(e);
    }
  }

  private void offer(Wire wire, long bytes) {
    Cancellation.Registration registered = cutWhenCancelled(wire);
    try {
      wire.send(Kind.OFFER, new Offer(root.pid(), root.startTicks(), bytes).encoded());
      Message accepted = wire.receive(Kind.ACCEPT);
      LOG.debug("{} accepts process {}: {}", receiver, root.pid(), accepted.kind());
    } catch (IOException e) {
      throw failed(e);
    } finally {
      registered.close();
    }
  }

  private Cancellation.Registration cutWhenCancelled(Wire wire) {
    return options
        .cancellation()
        .map(cancellation -> cancellation.onCancel(wire::cut))
        .orElse(() -> {});
  }

  /** Files of earlier images are not on the other host. */
  private void takeBack(ScanLimit limit) {
    try {
      MemoryHandOver.takeBack(root, limit.remaining());
      for (int child : ProcFs.descendants(root.pid())) {
        Optional<ProcessIdentity> process = ProcessIdentity.of(child);
        if (process.isPresent()) {
          MemoryHandOver.takeBack(process.get(), limit.remaining());
        }
      }
    } catch (IOException e) {
      throw new MigrationFailedException(
          "process %s was not moved and stays checkpointed: it has memory in a file of an earlier image, and could not be given its own (%s): resume it and suspend it again"
              .formatted(root.pid(), e.getMessage()),
          failure(),
          e);
    }
  }

  private void send(Wire wire, Path place, LogDirectory log, BoundedDiskTask disk) {
    log.make();
    StagedImage image =
        disk.run(
            "stage",
            () -> StagedImage.create(place, root, FILES_BYTES, context.imageKey(), log),
            Dump::close);
    try (LocalPort port = LocalPort.open()) {
      long end = Durations.end(options.deadline());
      relay = PageRelay.at(port, end, wire, ANSWERS_BYTES);
      dump(wire, image, port.endpoint(), disk);
    } catch (IOException e) {
      throw failed(e);
    } finally {
      if (relay != null) {
        relay.close();
      }
      if (!disk.hangs()) {
        disk.tidy("tidy", context.timeouts().call(), image::close);
      }
    }
  }

  private void dump(Wire wire, StagedImage image, PageEndpoint local, BoundedDiskTask disk) {
    DumpRequest request =
        new DumpRequest(root, image.images(), image.work(), options, new DumpMemory(local));
    try {
      DumpReport unused =
          steps.run(
              "dump",
              () -> context.criu().dump(request, listener(wire, image, disk)),
              DumpReport::bytes);
      image.logUnwanted();
    } catch (RuntimeException e) {
      ended(wire, image, e);
    }
    told(wire);
  }

  /** It is gone here. If that cannot be told, the other host says so to who waits there. */
  private void told(Wire wire) {
    try {
      wire.send(Kind.COMMIT);
    } catch (IOException e) {
      LOG.warn(
          "process {} is at {}, and gone here, which could not be said there: {}",
          root.pid(),
          receiver,
          e.getMessage());
    }
  }

  private DumpListener listener(Wire wire, StagedImage image, BoundedDiskTask disk) {
    return new DumpListener() {
      @Override
      public void postDump() {
        delivering(
            wire,
            () -> {
              describe(image, disk);
              made(relay).await();
              deliver(wire, image, disk);
              isThere = true;
            });
      }
    };
  }

  private interface Delivery {
    void run() throws IOException;
  }

  private void delivering(Wire wire, Delivery work) {
    Cancellation.Registration registered = cutWhenCancelled(wire);
    try {
      work.run();
    } catch (IOException e) {
      notDelivered = failed(e);
      throw notDelivered;
    } catch (RuntimeException e) {
      notDelivered = e;
      throw e;
    } finally {
      registered.close();
    }
  }

  private void describe(StagedImage image, BoundedDiskTask disk) {
    ImageMachine machine =
        disk.run(
            "describe",
            () -> {
              // CRIU holds the tree now: nobody leaves it any more.
              TreeCheck.requireInTree(operation);
              CarriedState carried = CarriedState.of(root.pid(), context.cuda().version());
              image.add(CarriedState.FILE, carried.text());
              return MachineSurvey.of(
                  context.inventory(), root.pid(), isolation.isPresent(), carried.files());
            },
            late -> image.close());
    Manifest.Options kept = ManifestOptions.of(options, root, isolation, null);
    String label = options.label().orElse(null);
    draft =
        ManifestDraft.of(
            job, context.criu(), kept, label, null, machine, steps.taken(), Instant.now());
  }

  private void deliver(Wire wire, StagedImage image, BoundedDiskTask disk) throws IOException {
    byte[] manifest =
        disk.run("describe", () -> image.describe(made(draft)), late -> image.close());
    FileTransfer files = new FileTransfer(wire, Long.MAX_VALUE);
    for (Path file : DurableFiles.list(image.images())) {
      files.send(file);
    }
    wire.send(Kind.MANIFEST, manifest);
    Message unused = wire.receive(Kind.READY);
  }

  private static <T> T made(@Nullable T made) {
    if (made == null) {
      throw new IllegalStateException("the CRIU driver has left out a stage of the dump");
    }
    return made;
  }

  /** Returns when the process is gone, and whole on the other host. */
  private void ended(Wire wire, StagedImage image, RuntimeException e) {
    image.endedWith(e);
    if (!isThere) {
      RuntimeException why = why(e);
      wire.refuse("the process stays with the sender: " + why.getMessage());
      throw why;
    }
    DumpEnd end = DumpEnd.of(root, e, context.timeouts().call());
    if (end == DumpEnd.GONE) {
      LOG.warn(
          "process {} is at {}, but CRIU's end was not clean here: {}", root.pid(), receiver, e);
      return;
    }
    if (end == DumpEnd.LIVES) {
      wire.refuse("the process stays with the sender: " + e.getMessage());
      throw why(e);
    }
    int unused = job.advance(); // closing the object must not resume it
    throw inDoubt(end, e);
  }

  /** CRIU only knows that it was refused, or that its connection was reset. */
  private RuntimeException why(RuntimeException e) {
    RuntimeException ours = notDelivered;
    if (ours == null && relay != null && relay.isBroken()) {
      try {
        relay.await();
      } catch (IOException broken) {
        ours = failed(broken);
      }
    }
    if (ours == null) {
      return e;
    }
    if (ours != e) {
      ours.addSuppressed(e);
    }
    return ours;
  }

  private MigrationInDoubtException inDoubt(DumpEnd end, Exception e) {
    String here =
        switch (end) {
          case LIVES -> "process %s is checkpointed here";
          case GONE -> "process %s is gone here";
          case UNKNOWN -> "process %s may or may not live here";
        };
    return new MigrationInDoubtException(
        (here
                + " and its image is complete at %s: look there, and let it go on at one of the two only (GpuProcess.inspect finds it here; %s)")
            .formatted(root.pid(), receiver, e.getMessage()),
        failure(),
        e);
  }

  private GpuCheckpointException failed(IOException e) {
    if (options.cancellation().map(Cancellation::isCancelled).orElse(false)) {
      return new OperationCancelledException(
          "process %s was not moved to %s and stays checkpointed: it was cancelled"
              .formatted(root.pid(), receiver),
          failure());
    }
    String why =
        e instanceof RefusedException
            ? "%s says: %s".formatted(receiver, e.getMessage())
            : "the connection to %s failed (%s): look at the receiver and the network"
                .formatted(receiver, e.getMessage());
    return new MigrationFailedException(
        "process %s was not moved and stays checkpointed here; %s".formatted(root.pid(), why),
        failure(),
        e);
  }

  private Failure failure() {
    return operation.failure(null, ProcessState.CHECKPOINTED);
  }
}
