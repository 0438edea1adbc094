package dev.gpuprocess.internal.recovery;

import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.error.NotCudaProcessException;
import dev.gpuprocess.error.OperationInProgressException;
import dev.gpuprocess.internal.call.BoundedCall;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.engine.TrackedProcess;
import dev.gpuprocess.internal.engine.TrackedTree;
import dev.gpuprocess.internal.engine.TreeSearch;
import dev.gpuprocess.internal.image.ImageDirectory;
import dev.gpuprocess.internal.image.LogDirectory;
import dev.gpuprocess.internal.linux.ProcessKey;
import dev.gpuprocess.internal.linux.ProcessSearch;
import dev.gpuprocess.internal.linux.ProcessTree;
import dev.gpuprocess.internal.manifest.ManifestData;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.state.GpuUsage;
import dev.gpuprocess.internal.state.Journal;
import dev.gpuprocess.internal.state.JournalEntry;
import dev.gpuprocess.internal.state.ProcessHistory;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.report.RecoveryOutcome;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.TimeoutException;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Recovers from a restore whose controller died. CRIU may have completed the restore, have failed,
 * or have died half way; and the pid may belong to another process by now, which must not be
 * touched.
 */
final class RestoreRecovery extends EntryRecovery {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  RestoreRecovery(EngineContext context, Journal journal, JournalEntry entry) {
    super(context, journal, entry);
  }

  /** Runs; empty when CRIU completed the restore, since the process then has its own entry. */
  Optional<RecoveredProcess> run() {
    ProcessSearch search = entry.find();
    if (search.isGone() || search.process().isEmpty()) {
      return of(search);
    }
    ProcessIdentity process = search.process().get();
    return locked(process, ProcessKey.of(process), () -> of(search));
  }

  /**
   * Runs for a live controller. It holds the lock of the pid while it restores; if it does not hold
   * it, it could not find out how its restore ended, and left the entry.
   */
  Optional<RecoveredProcess> runBesideController() {
    return locked(entry.process(), entry.key(), () -> of(entry.find()));
  }

  private Optional<RecoveredProcess> locked(
      ProcessIdentity process, ProcessKey key, Supplier<Optional<RecoveredProcess>> body) {
    try {
      return locked(key, process.pid(), body);
    } catch (OperationInProgressException e) {
      return Optional.of(new RecoveredProcess(process, RecoveryOutcome.IN_USE, null));
    } catch (NoSuchProcessException | NotCudaProcessException anotherProcess) {
      return Optional.of(gone());
    } catch (GpuCheckpointException e) {
      LOG.warn("process {} cannot be recovered now: {}", process.pid(), e.getMessage());
      return Optional.of(new RecoveredProcess(process, RecoveryOutcome.UNREACHABLE, null));
    }
  }

  private Optional<RecoveredProcess> of(ProcessSearch search) {
    if (search.isGone()) {
      return Optional.of(gone());
    }
    return search
        .process()
        .map(process -> of(process, ProcessKey.of(process)))
        .orElseGet(() -> Optional.of(found(RecoveryOutcome.UNREACHABLE)));
  }

  private Optional<RecoveredProcess> of(ProcessIdentity process, ProcessKey key) {
    if (isHalfRestored(process)) {
      if (!isTreeEnded(process)) {
        return Optional.of(found(RecoveryOutcome.UNREACHABLE));
      }
      journal.remove(entry.key());
      return Optional.of(new RecoveredProcess(process, RecoveryOutcome.HALF_RESTORED_ENDED, null));
    }
    Optional<ManifestData> image = manifest();
    if (!isOf(image, process)) {
      return Optional.of(gone());
    }
    if (!areJournalled(process, image)) {
      return Optional.of(found(RecoveryOutcome.UNREACHABLE));
    }
    journal.removeRestore(entry.key());
    if (journal.entriesOfProcesses().stream().anyMatch(each -> each.root().equals(key))) {
      return Optional.empty();
    }
    // Without a readable image, a process that is not suspended counts as another process.
    return Optional.of(
        image.isPresent()
            ? new RecoveredProcess(process, RecoveryOutcome.RUNNING, null)
            : found(RecoveryOutcome.GONE));
  }

  /**
   * Returns whether a controller suspended a process that has no entry. If it is not known whether
   * the process is of the image, another tool could have locked it, and it is not unlocked.
   */
  private static boolean isAway(ProcessState state, boolean isKnownOfImage) {
    return state == ProcessState.CHECKPOINTED || (isKnownOfImage && state == ProcessState.LOCKED);
  }

  /** Kills the processes of the tree that CRIU has created so far; false when one stays. */
  private boolean isTreeEnded(ProcessIdentity root) {
    return ProcessTree.end(List.of(root), context.timeouts().call());
  }

  /** Returns the history of a member that was restored and has not run, by its pid in the image. */
  private ProcessHistory history(Optional<ManifestData> image, int pid) {
    Path from = entry.image();
    if (image.isEmpty() || from == null) {
      return ProcessHistory.NONE;
    }
    ManifestData known = image.get();
    return known.cudaProcesses().stream()
        .filter(each -> each.pid() == pid)
        .findFirst()
        .map(
            each ->
                ProcessHistory.restored(
                    from,
                    new ProcessIdentity(pid, each.startTicks()),
                    known.label(),
                    known.machine()))
        .orElse(ProcessHistory.NONE);
  }

  /** Journals members without an entry; false if the driver reports no state for a member. */
  private boolean areJournalled(ProcessIdentity root, Optional<ManifestData> image) {
    Map<Integer, GpuUsage> held = new HashMap<>();
    boolean isolated = image.map(known -> known.options().isIsolated()).orElse(false);
    if (image.map(known -> known.options().plugin() != null).orElse(false)) {
      return true; // it is running, and has no CUDA state
    }
    image.ifPresent(
        known ->
            known
                .cudaProcesses()
                .forEach(each -> held.put(each.pid(), GpuUsage.recorded(each.gpuBytes()))));
    TrackedTree tree =
        TrackedTree.of(context, root, new TreeSearch(context, root, Recovery.VERB).members());
    for (TrackedProcess each : tree.members()) {
      ProcessState state = each.lastKnown();
      if (state != null
          && isAway(state, image.isPresent())
          && journal.ownEntry(each.key).isEmpty()) {
        each.recordGpuUsage(
            held.getOrDefault(isolated ? each.key.pid() : each.pid(), GpuUsage.UNKNOWN));
        journal.write(
            new JournalEntry(
                    entry.boot(),
                    each.key,
                    each.pid(),
                    entry.controller(),
                    state.name().toLowerCase(Locale.ROOT),
                    each.held(),
                    null,
                    entry.log())
                .below(ProcessKey.of(root))
                .after(history(image, isolated ? each.key.pid() : each.pid())));
      }
    }
    Set<Integer> found =
        tree.members().stream()
            .map(each -> isolated ? each.key.pid() : each.pid())
            .collect(Collectors.toSet());
    return ProcFs.tree(root.pid()).stream()
        .flatMap(each -> ProcessIdentity.of(each).stream())
        .filter(ProcessIdentity::isAlive)
        .map(each -> isolated ? ProcessKey.of(each).pid() : each.pid())
        .noneMatch(each -> held.containsKey(each) && !found.contains(each));
  }

  /**
   * Returns whether CRIU did not complete the restore: the task then still has CRIU's log open,
   * which is in a directory that no other user can enter.
   */
  private boolean isHalfRestored(ProcessIdentity process) {
    return entry.log() != null && new LogDirectory(entry.log()).isHeldBy(process);
  }

  /** Returns whether a process is of an image; true if the image cannot be read. */
  private static boolean isOf(Optional<ManifestData> image, ProcessIdentity process) {
    return image
        .map(known -> known.commandLine().equals(ProcFs.commandLine(process.pid())))
        .orElse(true);
  }

  /** Returns the manifest; empty if the entry has no image, or the image cannot be read. */
  private Optional<ManifestData> manifest() {
    Path image = entry.image();
    if (image == null) {
      return Optional.empty();
    }
    try {
      return Optional.of(
          BoundedCall.run(
              image,
              "read " + image,
              context.timeouts().call(),
              () -> ImageDirectory.open(image, context.imageKey()).manifest(),
              (late, failed) -> LOG.info("{} could be read after all", image)));
    } catch (ImageException | TimeoutException e) {
      LOG.warn(
          "{} cannot be read, so process {} counts as restored from it", image, entry.pid(), e);
      return Optional.empty();
    }
  }
}
