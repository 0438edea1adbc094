package dev.gpuprocess.internal.recovery;

import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.internal.call.BoundedDiskTask;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.image.AbandonedImage;
import dev.gpuprocess.internal.image.LogDirectory;
import dev.gpuprocess.internal.launch.CudaJobFile;
import dev.gpuprocess.internal.launch.LaunchedRoot;
import dev.gpuprocess.internal.linux.Leftovers;
import dev.gpuprocess.internal.linux.ProcessKey;
import dev.gpuprocess.internal.linux.ProcessSearch;
import dev.gpuprocess.internal.memory.SaveFiles;
import dev.gpuprocess.internal.proc.ProcessUnreadableException;
import dev.gpuprocess.internal.proc.Unreadable;
import dev.gpuprocess.internal.state.Journal;
import dev.gpuprocess.internal.state.JournalEntry;
import dev.gpuprocess.internal.state.ProcessLock;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.report.RecoveryOutcome;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.Collectors;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Recovers processes and files that dead controllers left, one journal entry after the other. */
public final class Recovery {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  static final String VERB = "recover";

  private final EngineContext context;
  private final Journal journal;

  public Recovery(EngineContext context) {
    this.context = context;
    this.journal = new Journal(context.state());
  }

  public List<RecoveredProcess> run() {
    return journal.alone(
        context.timeouts().transfer(),
        () -> {
          journal.removePartial();
          journal.quarantineInvalid();
          removeStaleLocks();
          List<RecoveredProcess> all = new ArrayList<>(endLaunched());
          List<JournalEntry> found = journal.entries();
          found.stream()
              .filter(JournalEntry::isImageRestore)
              .forEach(entry -> recoverRestore(entry).ifPresent(all::add));
          List<JournalEntry> ofProcesses =
              journal.entries().stream()
                  .filter(entry -> !entry.isImageRestore() && !entry.isOfImage())
                  .toList();
          ofProcesses.stream()
              .filter(entry -> !isLeft(entry))
              .map(entry -> new LiveEntryRecovery(context, journal, entry).run())
              .forEach(all::add);
          ofProcesses.stream()
              .filter(Recovery::isLeft)
              .collect(Collectors.groupingBy(JournalEntry::root))
              .forEach((root, entries) -> all.addAll(recoverTree(root, entries)));
          // Last, so that a hung disk delays no process.
          tidyUp(found);
          return all;
        });
  }

  /** Ends launched processes first, so that none of their members is resumed. */
  private List<RecoveredProcess> endLaunched() {
    List<RecoveredProcess> ended = new ArrayList<>();
    journal
        .launches()
        .forEach(
            (file, entry) -> {
              if (isLeft(entry)) {
                endLaunched(file, entry).map(Recovery::logged).ifPresent(ended::add);
              }
            });
    return ended;
  }

  private Optional<RecoveredProcess> endLaunched(Path file, JournalEntry entry) {
    ProcessIdentity root = entry.process();
    try {
      ProcessSearch search = entry.find();
      if (search.isGone()) {
        journal.remove(file);
        return Optional.empty();
      }
      if (search.process().isPresent()
          && LaunchedRoot.endLeftover(search.process().get(), file, context.timeouts().call())) {
        journal.remove(file);
        return Optional.of(new RecoveredProcess(root, RecoveryOutcome.ENDED_WITH_CONTROLLER, null));
      }
      LOG.warn("process {} has outlived its controller, and cannot be ended from here", root.pid());
    } catch (IOException | ProcessUnreadableException e) {
      LOG.warn("process {} has outlived its controller: {}", root.pid(), e.getMessage());
    }
    return Optional.of(new RecoveredProcess(root, RecoveryOutcome.UNREACHABLE, null));
  }

  private void removeStaleLocks() {
    try {
      ProcessLock.removeStale(context.state());
    } catch (IOException e) {
      LOG.warn("locks of processes that have ended are not removed: {}", e.toString());
    }
  }

  /**
   * Removes files of dead controllers, and files that this JVM could not remove before. Each disk
   * has a deadline, so a hung disk is skipped.
   */
  private void tidyUp(List<JournalEntry> found) {
    for (JournalEntry entry : found) {
      if (isLeft(entry)) {
        boolean clean = removePartialImages(entry);
        Optional.ofNullable(entry.log())
            .filter(log -> LogDirectory.isOne(log) && !isRestoreLeft(entry))
            .ifPresent(log -> bounded(log, new LogDirectory(log)::delete));
        if (clean && entry.isOfImage()) {
          journal.remove(entry.key());
        }
      }
    }
    Leftovers.places().forEach(place -> bounded(place, () -> Leftovers.removeIn(place)));
    CudaJobFile.removeUnused(context.state());
    context
        .hostMemory()
        .directory()
        .ifPresent(place -> bounded(place, () -> SaveFiles.removeAbandoned(place)));
    bounded(Path.of(System.getProperty("java.io.tmpdir")), LogDirectory::removeOutdated);
  }

  /** Returns whether the next recovery needs the log of a restore, as this one had no result. */
  private boolean isRestoreLeft(JournalEntry entry) {
    return journal.find(entry.key()).filter(JournalEntry::isImageRestore).isPresent();
  }

  private void bounded(Path place, Runnable work) {
    new BoundedDiskTask(VERB, 0, place, context.timeouts().call())
        .tidy("tidy up " + place, context.timeouts().call(), work);
  }

  /** Returns whether the controller of an entry is dead; false if that is not known. */
  private static boolean isLeft(JournalEntry entry) {
    return Unreadable.as(false, () -> !entry.hasLiveController());
  }

  private List<RecoveredProcess> recoverTree(ProcessKey root, List<JournalEntry> entries) {
    try {
      new AbandonedCriu(context, journal, root, entries).awaitEnd();
      return new TreeRecovery(context, journal, root, entries)
          .run().stream().map(Recovery::logged).toList();
    } catch (ProcessUnreadableException e) {
      return entries.stream().map(entry -> unreadable(entry, e)).toList();
    }
  }

  /** The process could not be read, so its entry stays. */
  private static RecoveredProcess unreadable(JournalEntry entry, ProcessUnreadableException e) {
    LOG.warn("process {} cannot be recovered now: {}", entry.process().pid(), e.getMessage());
    return new RecoveredProcess(entry.process(), RecoveryOutcome.UNREACHABLE, null);
  }

  /** Recovers a restore; empty when CRIU completed it: the process then has its own entry. */
  private Optional<RecoveredProcess> recoverRestore(JournalEntry entry) {
    try {
      RestoreRecovery restore = new RestoreRecovery(context, journal, entry);
      return entry.hasLiveController()
          ? restore.runBesideController()
          : restore.run().map(Recovery::logged);
    } catch (ProcessUnreadableException e) {
      return Optional.of(unreadable(entry, e));
    }
  }

  private static RecoveredProcess logged(RecoveredProcess recovered) {
    LOG.info("recovered process {}: {}", recovered.process().pid(), recovered.outcome());
    return recovered;
  }

  /**
   * Removes partial images of dead controllers, which are beside their final places.
   *
   * @return whether it is known that the controller of the entry left none there
   */
  private boolean removePartialImages(JournalEntry entry) {
    return Optional.ofNullable(entry.image())
        .map(Path::getParent)
        .map(parent -> removePartialImages(entry, parent))
        .orElse(true);
  }

  private boolean removePartialImages(JournalEntry entry, Path parent) {
    // Set by the thread, which may be abandoned if the disk hangs.
    AtomicBoolean clean = new AtomicBoolean();
    bounded(
        parent,
        () -> {
          AbandonedImage.removeIn(parent);
          clean.set(!hasPartialImage(entry, parent));
        });
    return clean.get();
  }

  /** Returns whether there may be one of this boot; true if the directory cannot be searched. */
  private static boolean hasPartialImage(JournalEntry entry, Path parent) {
    ProcessIdentity maker =
        new ProcessIdentity(entry.controller().pid(), entry.controller().startTicks());
    try {
      return AbandonedImage.in(parent).stream()
          .anyMatch(partial -> partial.process().isPresent() && partial.maker().equals(maker));
    } catch (ImageException e) {
      LOG.debug("whether {} has a partial image is not known: {}", parent, e.getMessage());
      return true;
    }
  }
}
