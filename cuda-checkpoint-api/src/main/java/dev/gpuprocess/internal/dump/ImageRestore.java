package dev.gpuprocess.internal.dump;

import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.ImageMismatchException;
import dev.gpuprocess.error.PidTakenException;
import dev.gpuprocess.error.ProcessUnreadableException;
import dev.gpuprocess.gpu.GpuUuid;
import dev.gpuprocess.image.Manifest;
import dev.gpuprocess.internal.call.BoundedDiskTask;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.engine.StateHandle;
import dev.gpuprocess.internal.engine.StepRecorder;
import dev.gpuprocess.internal.engine.TrackedProcess;
import dev.gpuprocess.internal.journal.Journal;
import dev.gpuprocess.internal.launch.LaunchedProcess;
import dev.gpuprocess.internal.lock.ProcessLock;
import dev.gpuprocess.internal.process.ProcessKey;
import dev.gpuprocess.internal.room.Holdings;
import dev.gpuprocess.internal.store.ImageDirectory;
import dev.gpuprocess.internal.store.LogDirectory;
import dev.gpuprocess.internal.store.ReadLimit;
import dev.gpuprocess.internal.store.VerifiedImage;
import dev.gpuprocess.internal.time.Polling;
import dev.gpuprocess.options.RestoreOptions;
import dev.gpuprocess.process.ProcessIdentity;
import dev.gpuprocess.spi.RestoreReport;
import dev.gpuprocess.spi.RestoreRequest;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.function.IntConsumer;
import org.jspecify.annotations.Nullable;

/** Brings a process back from its image with CRIU; its GPU memory is still in host memory then. */
public final class ImageRestore {

  private final EngineContext context;
  private final ImageDirectory image;
  private final Manifest manifest;
  private final StepRecorder steps;
  private final Optional<Isolation> isolation;
  private final ProcessKey place;

  /** The pid that the process has or will have; of an isolated one it is known late. */
  private volatile int pid;

  /** The process, once CRIU has brought it back. */
  private @Nullable ProcessIdentity back;

  /** Prepares; nothing is done yet. */
  public ImageRestore(EngineContext context, ImageDirectory image, StepRecorder steps) {
    this.context = context;
    this.image = image;
    this.manifest = image.manifest();
    this.steps = steps;
    this.isolation = Isolation.of(manifest);
    this.place = isolation.isPresent() ? ImageLock.ofItsOwn() : ImageLock.key(manifest);
    this.pid = place.pid();
  }

  /**
   * Restores the process.
   *
   * @param options how; what must match the dump is added from the manifest
   * @return the process, checkpointed
   */
  public StateHandle run(RestoreOptions options) {
    requireExpected(options);
    Optional<LaunchedProcess> job = LaunchedProcess.take(dumped());
    try {
      return run(options, job.isPresent());
    } finally {
      ProcessIdentity came = back;
      job.ifPresent(
          launched -> {
            if (came == null) {
              launched.notReturned();
            } else {
              launched.returned(came);
            }
          });
    }
  }

  private StateHandle run(RestoreOptions options, boolean launchedHere) {
    RestoreOptions all = ManifestOptions.with(manifest.options(), wanted(options, launchedHere));
    ProcessLock lock = ImageLock.take(context, manifest, place, "restore");
    try {
      if (isolation.isEmpty()) {
        new PidWait(manifest).requireFree();
      }
      lock.atCriu(true);
      return restore(all);
    } finally {
      lock.release();
    }
  }

  /** A job that was launched here becomes a child of this JVM, which can tell how it ends. */
  private RestoreOptions wanted(RestoreOptions options, boolean launchedHere) {
    RestoreOptions.Builder wanted = options.toBuilder().expectNothing();
    if (launchedHere && context.criu().takesDescriptors()) {
      wanted.asChild(true);
    }
    return isolation
        .map(found -> found.with(manifest.pid(), wanted.build()))
        .orElseGet(wanted::build);
  }

  private void requireExpected(RestoreOptions options) {
    Optional<String> label = options.expectedLabel();
    if (label.isPresent() && !label.get().equals(manifest.label())) {
      throw mismatch(
          manifest.label() == null
              ? "has no label, and '%s' was expected".formatted(label.get())
              : "is labelled '%s', and '%s' was expected".formatted(manifest.label(), label.get()));
    }
    Optional<ProcessIdentity> process = options.expectedProcess();
    if (process.isPresent() && !process.get().equals(dumped())) {
      throw mismatch(
          "is of process %s started at tick %s, and process %s started at tick %s was expected"
              .formatted(
                  manifest.pid(),
                  manifest.startTicks(),
                  process.get().pid(),
                  process.get().startTicks()));
    }
  }

  private ImageMismatchException mismatch(String why) {
    return new ImageMismatchException(
        "the image %s %s: find out who put it there; nothing was restored"
            .formatted(image.path(), why),
        Failure.of("restore", manifest.pid()));
  }

  private StateHandle restore(RestoreOptions options) {
    BoundedDiskTask disk =
        new BoundedDiskTask("restore", manifest.pid(), image.path(), options.deadline());
    disk.requireCapacity();
    ReadLimit reading =
        ReadLimit.within(
            "restore", manifest.pid(), options.deadline(), options.cancellation().orElse(null));
    try (VerifiedImage verified =
        steps.run("verify", () -> verified(disk, reading), checked -> manifest.bytes())) {
      TrackedProcess target = restore(verified, LogDirectory.planned("restore"), options);
      steps.rethrow();
      return StateHandle.next(target, steps.taken());
    }
  }

  private TrackedProcess restore(VerifiedImage verified, LogDirectory log, RestoreOptions options) {
    Holdings held = held();
    Journal journal = new Journal(context.state());
    ProcessKey expected = journal.writeRestore(pid, held, image.path(), log.path());
    boolean isNoted = true;
    try {
      log.make();
      RestoreReport report =
          steps.run(
              "criu restore",
              () ->
                  criuRestore(
                      verified,
                      log,
                      options,
                      found -> {
                        pid = found;
                        journal.updateRestore(expected, found, held, image.path(), log.path());
                      }),
              RestoreReport::bytes);
      back = report.process();
      TrackedProcess target = new TrackedProcess(context, report.process(), held, dumped());
      target.leaveAt(ProcessState.CHECKPOINTED);
      log.delete();
      return target;
    } catch (PidTakenException e) {
      log.endedWith(e);
      throw e;
    } catch (RuntimeException | Error e) {
      log.endedWith(e);
      isNoted = isSurvivorNoted(expected, held, e);
      throw e;
    } finally {
      if (isNoted) {
        journal.removeRestore(expected);
      }
    }
  }

  private VerifiedImage verified(BoundedDiskTask disk, ReadLimit reading) {
    return disk.run(
        "verify",
        () -> image.verified(reading),
        late -> {
          if (late != null) {
            late.close();
          }
        });
  }

  /**
   * CRIU may fail after it let the process go; what it held is journalled then, for the resume.
   * Where it cannot be seen whether the process lives, as when no descriptors are left, the entry
   * made before the restore stays for a recovery.
   *
   * @param why gets what is in the way
   */
  private boolean isSurvivorNoted(ProcessKey expected, Holdings held, Throwable why) {
    try (Polling patience = new Polling(context.timeouts().call())) {
      while (true) {
        try {
          ProcessIdentity.of(pid)
              .filter(found -> found.isAlive() && found.startTicks() >= expected.startTicks())
              .ifPresent(
                  found ->
                      new TrackedProcess(context, found, held)
                          .noteState(ProcessState.CHECKPOINTED));
          return true;
        } catch (ProcessUnreadableException unknown) {
          if (!patience.pause()) {
            why.addSuppressed(unknown);
            return false;
          }
        }
      }
    }
  }

  private RestoreReport criuRestore(
      VerifiedImage verified, LogDirectory log, RestoreOptions options, IntConsumer found) {
    CarriedState carried = CarriedState.read(manifest.pid(), verified.images());
    try (MemoryDescriptors memory = MemoryDescriptors.open(manifest, verified)) {
      return context
          .criu()
          .restore(
              new RestoreRequest(
                  verified.images(), log.path(), manifest.pid(), memory.with(options)),
              isolation.isEmpty() ? carried : new NewPid(carried, found));
    } catch (RuntimeException e) {
      carried.removeWhatWasMade();
      throw e;
    }
  }

  private ProcessIdentity dumped() {
    return new ProcessIdentity(manifest.pid(), manifest.startTicks());
  }

  private Holdings held() {
    Map<GpuUuid, Long> held = new TreeMap<>();
    manifest.gpuBytes().forEach((gpu, bytes) -> held.put(GpuUuid.of(gpu), bytes));
    return Holdings.of(held);
  }
}
