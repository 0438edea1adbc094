package dev.gpuprocess.internal.dump;

import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.Fate;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.error.PidTakenException;
import dev.gpuprocess.error.ProcessUnreadableException;
import dev.gpuprocess.image.ImageMember;
import dev.gpuprocess.image.Manifest;
import dev.gpuprocess.internal.call.BoundedDiskTask;
import dev.gpuprocess.internal.call.Stop;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.engine.StateHandle;
import dev.gpuprocess.internal.engine.StepRecorder;
import dev.gpuprocess.internal.engine.TrackedProcess;
import dev.gpuprocess.internal.engine.TrackedTree;
import dev.gpuprocess.internal.image.ImageDirectory;
import dev.gpuprocess.internal.image.LogDirectory;
import dev.gpuprocess.internal.image.VerifiedImage;
import dev.gpuprocess.internal.launch.LaunchedRoot;
import dev.gpuprocess.internal.linux.ProcessKey;
import dev.gpuprocess.internal.state.ProcessLock;
import dev.gpuprocess.internal.machine.MachineCheck;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.state.GpuUsage;
import dev.gpuprocess.internal.room.Holdings;
import dev.gpuprocess.internal.state.Journal;
import dev.gpuprocess.internal.state.ProcessHistory;
import dev.gpuprocess.internal.time.Polling;
import dev.gpuprocess.internal.time.WorkLimit;
import dev.gpuprocess.options.Cancellation;
import dev.gpuprocess.options.RestoreOptions;
import dev.gpuprocess.process.ProcessIdentity;
import dev.gpuprocess.spi.GpuPlugin;
import dev.gpuprocess.spi.RestoreListener;
import dev.gpuprocess.spi.RestoreReport;
import dev.gpuprocess.spi.RestoreRequest;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.function.IntConsumer;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Brings a process back from its image with CRIU; its GPU memory is still in host memory then. */
public final class ImageRestore {

  private static final Duration MOMENT = Duration.ofSeconds(1);

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  private final EngineContext context;
  private final ImageDirectory image;
  private final Manifest manifest;
  private final StepRecorder steps;
  private final Optional<Isolation> isolation;
  private final ProcessKey place;

  /** The pid that the process has or will have; of an isolated one it is known late. */
  private volatile int pid;

  private @Nullable GpuPlugin plugin;

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
    ImageKind.require(image, null, "restore");
    return looked(options);
  }

  /**
   * Restores a tree whose GPU state a plugin of CRIU restores.
   *
   * @param options how; what must match the dump is added from the manifest
   * @param allowed the plugin
   * @return the process, which runs
   */
  public StateHandle run(RestoreOptions options, GpuPlugin allowed) {
    ImageKind.require(image, allowed, "restore");
    Path unused = context.criu().locate(allowed);
    plugin = allowed;
    return looked(options);
  }

  private StateHandle looked(RestoreOptions options) {
    Stop.requireNotCancelled(
        options.cancellation(), "restore", "image " + image.path(), manifest.pid());
    requireExpected(options);
    Optional<LaunchedRoot> job = LaunchedRoot.restoring(dumped());
    try {
      return run(options, job.isPresent());
    } finally {
      ProcessIdentity came = back;
      job.ifPresent(
          launched -> {
            if (came == null) {
              launched.notRestored();
            } else {
              launched.restored(came);
            }
          });
    }
  }

  private StateHandle run(RestoreOptions options, boolean launchedHere) {
    if (!options.skipMachineCheck()) {
      steps.runNoted(
          "compare", 0, () -> MachineCheck.require(context, image.path(), manifest, options));
    }
    RestoreOptions all = ManifestOptions.with(manifest.options(), wanted(options, launchedHere));
    List<ProcessLock> locks =
        isolation.isPresent()
            ? List.of(ImageLock.take(context, place, "restore"))
            : ImageLock.takeAll(context, manifest, "restore");
    try {
      if (isolation.isEmpty()) {
        new PidWait(manifest).requireFree();
      }
      locks.forEach(each -> each.atCriu(true));
      return restore(all);
    } finally {
      locks.forEach(ProcessLock::release);
    }
  }

  /** A process that was launched here becomes a child of this JVM, which can tell how it ends. */
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
    if (label.isEmpty() && process.isEmpty()) {
      image.requireSafePlace();
    }
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

  private ImageException mismatch(String why) {
    return new ImageException(
        ImageException.Reason.MISMATCH,
        "the image %s %s: find out who put it there; nothing was restored"
            .formatted(image.path(), why),
        Failure.of("restore", manifest.pid()));
  }

  private StateHandle restore(RestoreOptions options) {
    BoundedDiskTask disk =
        new BoundedDiskTask("restore", manifest.pid(), image.path(), options.deadline());
    disk.requireCapacity();
    WorkLimit reading =
        WorkLimit.reading(
            "restore",
            manifest.pid(),
            options.deadline(),
            () -> options.cancellation().map(Cancellation::isCancelled).orElse(false));
    try (VerifiedImage verified =
        steps.run(
            "verify",
            () -> verified(disk, reading),
            checked -> manifest.bytes(),
            VerifiedImage::note)) {
      ProcessIdentity root = restore(verified, LogDirectory.planned("restore"), options);
      steps.rethrow();
      return StateHandle.next(restored(root), steps.taken());
    }
  }

  private ProcessIdentity restore(
      VerifiedImage verified, LogDirectory log, RestoreOptions options) {
    Journal journal = new Journal(context.state());
    GpuUsage held = GpuUsage.recorded(manifest.gpuBytes());
    ProcessKey expected = journal.writeRestore(pid, held, image.path(), log.path());
    boolean isNoted = false;
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
      isNoted = isNoted(report.process());
      if (!isNoted) {
        journal.updateRestore(expected, report.process().pid(), held, image.path(), log.path());
      }
      log.delete();
      return report.process();
    } catch (PidTakenException e) {
      isNoted = true;
      log.endedWith(e);
      throw e;
    } catch (RuntimeException | Error e) {
      log.endedWith(e);
      // What is not known is found out by a recovery, from the entry that was made before.
      isNoted = !isFateUnknown(e) && isSurvivorNoted(expected, e);
      throw e;
    } finally {
      if (isNoted) {
        journal.removeRestore(expected);
      }
    }
  }

  private static boolean isFateUnknown(Throwable e) {
    return e instanceof GpuCheckpointException known && known.failure().fate() == Fate.UNKNOWN;
  }

  /** A shortage of descriptors may be over in a moment. */
  private boolean isNoted(ProcessIdentity root) {
    try (Polling patience = new Polling(MOMENT)) {
      while (!note(root)) {
        if (!patience.pause()) {
          return false;
        }
      }
      return true;
    }
  }

  /** Whether the journal knows of all members; else the entry made before the restore must stay. */
  private boolean note(ProcessIdentity root) {
    boolean all = true;
    for (TrackedProcess each : members(root)) {
      all &= each.noteState(ProcessState.CHECKPOINTED);
    }
    return all;
  }

  /** The CUDA processes of a tree that CRIU has restored. */
  private List<TrackedProcess> members(ProcessIdentity root) {
    List<TrackedProcess> found = new ArrayList<>();
    for (ImageMember each : manifest.cudaProcesses()) {
      boolean isRoot = each.startTicks() == manifest.startTicks() && isPidOfRoot(each.pid());
      Optional<ProcessIdentity> here = isRoot ? Optional.of(root) : below(root, each.pid());
      ProcessIdentity origin =
          isRoot ? dumped() : new ProcessIdentity(each.pid(), each.startTicks());
      here.filter(ProcessIdentity::isAlive)
          .ifPresentOrElse(
              identity ->
                  found.add(
                      new TrackedProcess(
                          context, identity, GpuUsage.recorded(each.gpuBytes()), history(origin))),
              () -> LOG.warn("process {} of {} has ended again", each.pid(), image.path()));
    }
    return TrackedTree.of(context, root, found).members();
  }

  private ProcessHistory history(ProcessIdentity origin) {
    return ProcessHistory.restored(image.path(), origin, manifest.label());
  }

  private boolean isPidOfRoot(int pid) {
    return pid == manifest.pid() || (isolation.isPresent() && pid == 1);
  }

  /** A process of the restored tree by the pid in the image, which is that in its namespace. */
  private Optional<ProcessIdentity> below(ProcessIdentity root, int pid) {
    if (isolation.isEmpty()) {
      return ProcessIdentity.of(pid);
    }
    return ProcFs.descendants(root.pid()).stream()
        .flatMap(each -> ProcessIdentity.of(each).stream())
        .filter(each -> ProcessKey.of(each).pid() == pid)
        .findFirst();
  }

  /** The restored tree, for the caller. */
  private TrackedTree restored(ProcessIdentity root) {
    if (plugin != null) {
      return TrackedTree.of(context, root, plugin);
    }
    List<TrackedProcess> members = members(root);
    members.forEach(each -> each.foundIn(ProcessState.CHECKPOINTED));
    return TrackedTree.of(context, root, members);
  }

  private VerifiedImage verified(BoundedDiskTask disk, WorkLimit reading) {
    return disk.run(
        "verify",
        () -> image.verified(reading, context.hostMemory()),
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
  private boolean isSurvivorNoted(ProcessKey expected, Throwable why) {
    try (Polling patience = new Polling(context.timeouts().call())) {
      while (true) {
        try {
          return ProcessIdentity.of(pid)
              .filter(found -> found.isAlive() && found.startTicks() >= expected.startTicks())
              .map(this::note)
              .orElse(true);
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
      carried.putCudaJobFilesBack(manifest.pid(), context.state());
      RestoreOptions all = memory.with(options);
      RestoreListener listener = isolation.isEmpty() ? carried : new NewPid(carried, found);
      return context
          .criu()
          .restore(
              new RestoreRequest(verified.images(), log.path(), manifest.pid(), all).with(plugin),
              listener);
    } catch (RuntimeException e) {
      if (!mayLive(e)) {
        carried.removeWhatWasMade();
      }
      throw e;
    } finally {
      carried.release();
    }
  }

  /** Whether a restore that failed may have left the process, which needs its files. */
  private static boolean mayLive(RuntimeException e) {
    return e instanceof GpuCheckpointException known
        && (known.failure().fate() == Fate.RUNNING_AGAIN || known.failure().fate() == Fate.UNKNOWN);
  }

  private ProcessIdentity dumped() {
    return new ProcessIdentity(manifest.pid(), manifest.startTicks());
  }
}
