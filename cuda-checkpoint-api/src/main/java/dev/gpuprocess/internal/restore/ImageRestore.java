package dev.gpuprocess.internal.restore;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.Fate;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.error.ProcessUnfitException;
import dev.gpuprocess.internal.call.BoundedDiskTask;
import dev.gpuprocess.internal.call.Stop;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.engine.StateHandle;
import dev.gpuprocess.internal.engine.StepRecorder;
import dev.gpuprocess.internal.engine.TrackedTree;
import dev.gpuprocess.internal.extras.ImageExtras;
import dev.gpuprocess.internal.extras.TreeMounts;
import dev.gpuprocess.internal.image.ImageDirectory;
import dev.gpuprocess.internal.image.LogDirectory;
import dev.gpuprocess.internal.image.VerifiedImage;
import dev.gpuprocess.internal.launch.LaunchedRestore;
import dev.gpuprocess.internal.linux.ProcessTree;
import dev.gpuprocess.internal.machine.MachineComparison;
import dev.gpuprocess.internal.manifest.ManifestData;
import dev.gpuprocess.internal.state.ProcessLock;
import dev.gpuprocess.internal.time.WorkLimit;
import dev.gpuprocess.options.Cancellation;
import dev.gpuprocess.options.RestoreOptions;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.spi.GpuPlugin;
import dev.gpuprocess.spi.RestoreListener;
import dev.gpuprocess.spi.RestoreReport;
import dev.gpuprocess.spi.RestoreRequest;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.function.IntConsumer;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Restores a process from its image with CRIU. The GPU memory of the restored process is in host
 * memory, unless a plugin of CRIU restores it.
 */
public final class ImageRestore {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  private final EngineContext context;
  private final ImageDirectory image;
  private final ManifestData manifest;
  private final @Nullable GpuPlugin plugin;
  private final StepRecorder steps;
  private final Optional<TreeMounts> mounts;
  private final boolean isIsolated;
  private final RestoredPid pid;
  private final RestoredTree tree;
  private final List<String> lowered = new ArrayList<>();
  private Optional<LaunchedRestore> launched = Optional.empty();

  /**
   * Prepares a restore.
   *
   * @param plugin the plugin of CRIU that restores the GPU state; null for the CUDA driver
   */
  public ImageRestore(
      EngineContext context, ImageDirectory image, @Nullable GpuPlugin plugin, StepRecorder steps) {
    this.context = context;
    this.image = image;
    this.manifest = image.manifest();
    this.plugin = plugin;
    this.steps = steps;
    this.mounts = TreeMounts.of(manifest);
    this.isIsolated = manifest.options().isIsolated();
    this.pid = new RestoredPid(context, manifest, isIsolated);
    this.tree = new RestoredTree(context, image, isIsolated, List.of());
  }

  /**
   * Restores the process.
   *
   * @param options the caller's options; those that must match the dump are added from the manifest
   * @return the process: checkpointed, or running if a plugin restores its GPU state
   */
  public StateHandle run(RestoreOptions options) {
    check(options);
    launched = LaunchedRestore.known(context, tree.dumped(), isIsolated);
    return followed(options);
  }

  /**
   * Restores the process as a launched process of this JVM, which {@link #launched} returns then.
   *
   * @param options as for {@link #run}
   * @return the process
   */
  public StateHandle launch(RestoreOptions options) {
    check(options);
    launched =
        Optional.of(
            LaunchedRestore.launching(context, tree.dumped(), isIsolated, options.survivesExit()));
    return followed(options);
  }

  /** Returns the restore of a launched process; empty before it, and if the process is none. */
  public Optional<LaunchedRestore> launched() {
    return launched;
  }

  private void check(RestoreOptions options) {
    image.requirePlugin(plugin, "restore");
    if (plugin != null) {
      Path unused = context.criu().locate(plugin);
    }
    Stop.requireNotCancelled(
        options.cancellation(), "restore", "image " + image.path(), manifest.pid());
    requireExpected(options);
  }

  private StateHandle followed(RestoreOptions options) {
    try {
      StateHandle restored = placed(options);
      launched.ifPresent(LaunchedRestore::restored);
      return restored;
    } catch (RuntimeException | Error e) {
      launched.ifPresent(each -> each.failed(e));
      throw e;
    }
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
    if (process.isPresent() && !process.get().equals(tree.dumped())) {
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

  /** Takes the locks and waits for the pid. */
  private StateHandle placed(RestoreOptions call) {
    RestoreOptions options =
        context
            .criuOptions()
            .of(call.toBuilder().expectNothing().build(), manifest.options().criuOptions());
    if (!options.skipMachineCheck()) {
      steps.runNoted(
          "compare", 0, () -> MachineComparison.require(context, image.path(), manifest, options));
    }
    RestoreOptions all = mounts.map(found -> found.with(manifest.pid(), options)).orElse(options);
    List<ProcessLock> locks = pid.lock();
    try {
      pid.awaitFree(image.path(), options);
      launched.ifPresent(LaunchedRestore::awaitReaped);
      locks.forEach(each -> each.atCriu(true));
      return verified(all);
    } finally {
      locks.forEach(ProcessLock::release);
    }
  }

  private StateHandle verified(RestoreOptions options) {
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
      RestoredTree restored = tree.from(verified.saveFiles());
      ProcessIdentity root = journalled(verified, restored, options);
      steps.rethrow();
      return StateHandle.next(
          plugin == null ? restored.of(root) : TrackedTree.of(context, root, plugin),
          steps.taken());
    }
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

  private ProcessIdentity journalled(
      VerifiedImage verified, RestoredTree restored, RestoreOptions options) {
    LogDirectory log = LogDirectory.planned("restore");
    try (RestoreEntry entry = new RestoreEntry(restored, pid.number(), log)) {
      try {
        log.make();
        RestoreReport report =
            steps.run(
                "criu restore",
                () -> criuRestore(verified, log, options, entry::found),
                RestoreReport::bytes,
                this::note);
        entry.restored(report.process());
        return report.process();
      } catch (RuntimeException | Error e) {
        entry.failed(e);
        throw e;
      }
    }
  }

  private String note(RestoreReport report) {
    List<String> notes = new ArrayList<>(lowered);
    if (report.terminalLog() != null) {
      notes.add("the output of its new terminal goes to " + report.terminalLog());
    }
    return String.join("; ", notes);
  }

  /** Names the limits that are lower than at the dump, with the cure. */
  private void nameLowered(List<String> limits) {
    if (!limits.isEmpty()) {
      String text =
          "its hard resource limits were lowered to those of the controller (%s): raise those (ulimit -H, prlimit), or give CRIU CAP_SYS_RESOURCE, and restore again"
              .formatted(String.join(", ", limits));
      LOG.warn("process {}: {}", manifest.pid(), text);
      lowered.add(text);
    }
  }

  /** Returns the file for the output of a new terminal: beside the image, as it may be removed. */
  private Path terminalLog(LogDirectory log) {
    Path directory = image.path().toAbsolutePath();
    Path beside = directory.resolveSibling(directory.getFileName() + ".terminal.log");
    return Files.isWritable(Objects.requireNonNull(beside.getParent()))
        ? beside
        : log.path().resolveSibling("terminal-" + log.path().getFileName() + ".log");
  }

  private RestoreReport criuRestore(
      VerifiedImage verified, LogDirectory log, RestoreOptions options, IntConsumer found) {
    ImageExtras extras = ImageExtras.read(manifest.pid(), verified.images());
    boolean isBegun = false;
    try (MemoryDescriptors memory = MemoryDescriptors.open(manifest, verified);
        OutsideDescriptors outside = OutsideDescriptors.open(extras, manifest.pid())) {
      extras.putCudaJobFilesBack(manifest.pid(), context.state());
      extras.putSharedFilesBack(manifest.pid(), verified.images(), options.deadline());
      RestoreOptions.Builder all = outside.with(memory.with(options)).toBuilder();
      if (options.terminalLog().isEmpty()) {
        all.terminalLog(terminalLog(log));
      }
      // This JVM can wait for the end of its child.
      boolean asChild = launched.isPresent() && context.criu().takesDescriptors();
      isBegun = true;
      RestoreReport report =
          context
              .criu()
              .restore(
                  new RestoreRequest(
                      verified.images(), log.path(), manifest.pid(), all.build(), plugin, asChild),
                  new Listener(extras, isIsolated ? found : unused -> {}, launched));
      putSettingsBack(extras, report.process());
      nameLowered(extras.lowered());
      return report;
    } catch (RuntimeException | Error e) {
      if (!isBegun || !mayLive(e)) {
        extras.undo();
      }
      throw e;
    } finally {
      extras.release();
    }
  }

  /** Ends a process that would be less confined than it was. */
  private void putSettingsBack(ImageExtras extras, ProcessIdentity root) {
    try {
      extras.putSettingsBack(root.pid(), context.timeouts().call());
    } catch (IOException e) {
      ProcessUnfitException refused =
          new ProcessUnfitException(
              ProcessUnfitException.Reason.LESS_CONFINED,
              "process %s was restored and ended again, as it could not be confined as it was (%s); the image is as it was"
                  .formatted(root.pid(), e.getMessage()),
              Failure.of("restore", root.pid()),
              e);
      if (!ProcessTree.end(Set.of(root), context.timeouts().call())) {
        refused.addSuppressed(new IOException("process " + root.pid() + " does not end"));
      }
      throw refused;
    }
  }

  /** Returns whether a failed restore may have left the process, which needs its files. */
  private static boolean mayLive(Throwable e) {
    return e instanceof Error
        || (e instanceof GpuCheckpointException known
            && (known.failure().fate() == Fate.RUNNING_AGAIN
                || known.failure().fate() == Fate.UNKNOWN));
  }

  /**
   * The listener of a restore.
   *
   * @param isolated gets the pid of an isolated root as soon as CRIU has made it, so that a
   *     recovery finds the process if this JVM ends
   * @param launched starts the guard of a launched process
   */
  private record Listener(
      ImageExtras extras, IntConsumer isolated, Optional<LaunchedRestore> launched)
      implements RestoreListener {

    @Override
    public void preRestore() {
      extras.preRestore();
    }

    @Override
    public void setupNamespaces(int root) {
      isolated.accept(root);
    }

    @Override
    public void postRestore(int root) {
      extras.postRestore(root);
      try {
        if (launched.isPresent()) {
          launched.get().guard(root);
        }
      } catch (IOException e) {
        throw new UncheckedIOException("the process cannot be guarded: " + e.getMessage(), e);
      }
    }
  }
}
