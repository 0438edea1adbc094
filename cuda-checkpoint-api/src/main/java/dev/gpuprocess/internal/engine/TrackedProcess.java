package dev.gpuprocess.internal.engine;

import dev.gpuprocess.cuda.GpuUuid;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.FixAndRetryException;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.linux.ProcessKey;
import dev.gpuprocess.internal.linux.Processes;
import dev.gpuprocess.internal.manifest.ManifestData;
import dev.gpuprocess.internal.proc.FileId;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.internal.proc.ProcessUnreadableException;
import dev.gpuprocess.internal.proc.Standstill;
import dev.gpuprocess.internal.state.Generation;
import dev.gpuprocess.internal.state.GpuUsage;
import dev.gpuprocess.internal.state.Journal;
import dev.gpuprocess.internal.state.JournalEntry;
import dev.gpuprocess.internal.state.ProcessHistory;
import dev.gpuprocess.internal.state.ProcessLock;
import dev.gpuprocess.report.ProcessIdentity;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** A member of a {@link TrackedTree}: what this JVM and the journal know of a process. */
public final class TrackedProcess {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  private static final int MOST_READS = 10;

  public final EngineContext context;
  public final ProcessIdentity identity;

  /** The same in every pid namespace; names the lock and the journal entry. */
  public final ProcessKey key;

  /** What the process held on each GPU when it was last seen there. */
  private volatile GpuUsage held;

  /** The memory that the driver mapped at the checkpoint, as far as that was observed. */
  private volatile List<FileId> saveFiles = List.of();

  /** The last move of the process that this JVM knows of; empty if none was recorded. */
  private volatile Optional<Generation> seen = Optional.empty();

  /** The state that is known last, from a verb of this JVM or a read; null if not known. */
  private volatile @Nullable ProcessState lastKnown;

  /** The root of the tree that it is moved with. */
  private volatile ProcessKey root;

  /** The label of the image that it was restored from. */
  private final @Nullable String imageLabel;

  /** The part of its journal entries that is kept from one step to the next. */
  private volatile ProcessHistory history;

  public TrackedProcess(EngineContext context, ProcessIdentity identity, GpuUsage held) {
    this(context, identity, held, ProcessHistory.NONE);
  }

  public TrackedProcess(
      EngineContext context, ProcessIdentity identity, GpuUsage held, ProcessHistory history) {
    this.context = context;
    this.identity = identity;
    this.key = ProcessKey.of(identity);
    this.held = held;
    this.history = history;
    this.imageLabel = history.label();
    this.root = key;
  }

  /**
   * Finds the process with a pid.
   *
   * @throws NoSuchProcessException when it does not exist
   */
  public static TrackedProcess of(EngineContext context, long pid, String verb) {
    ProcessIdentity identity =
        ProcessIdentity.of(pid)
            .orElseThrow(
                () ->
                    new NoSuchProcessException(
                        pid <= 0
                            ? pid + " is not a process id: process ids start at 1"
                            : "there is no process " + pid + ": it ended, or never was",
                        Failure.of(verb, pid)));
    return of(context, identity);
  }

  /** Returns the process with an identity, with what other controllers have recorded of it. */
  static TrackedProcess of(EngineContext context, ProcessIdentity identity) {
    TrackedProcess process = new TrackedProcess(context, identity, GpuUsage.UNKNOWN);
    process.seen = process.lastMove();
    process.readJournal();
    return process;
  }

  public int pid() {
    return identity.pid();
  }

  /**
   * Checks that a driver call on the process returns and reaches this process: on a stopped process
   * it would hang forever, and on a reused pid it would reach another process. Removes the journal
   * entry of a process that has exited.
   *
   * @throws NoSuchProcessException when it has exited
   * @throws FixAndRetryException with reason PROCESS_STOPPED when it is stopped, traced or frozen
   * @throws dev.gpuprocess.error.OperationInProgressException when CRIU stops it for another verb
   */
  public void requireReachable(String verb) {
    if (!identity.isAlive()) {
      forget();
    }
    Optional<ProcStat> stat = Processes.stat(identity);
    if (stat.isEmpty()) {
      throw new NoSuchProcessException(
          "process %s has ended%s"
              .formatted(
                  pid(),
                  ProcessIdentity.of(pid()).isPresent()
                      ? ", and its pid belongs to another process now"
                      : ""),
          Failure.of(verb, pid()));
    }
    if (stat.get().isDead()) {
      throw new NoSuchProcessException(
          "process %s has ended; its parent %s has not reaped it yet"
              .formatted(pid(), stat.get().parent()),
          Failure.of(verb, pid()));
    }
    if (ProcFs.isFrozen(pid())) {
      throw stopped("is in a frozen cgroup", "thaw it", verb);
    }
    Standstill.of(pid())
        .ifPresent(
            still -> {
              throw stopped(still.what(), "let it continue (%s)".formatted(still.cure()), verb);
            });
  }

  private GpuCheckpointException stopped(String what, String cure, String verb) {
    return ProcessLock.holderAtCriu(key, context.state())
        .or(() -> ProcessLock.holderAtCriu(root, context.state()))
        .<GpuCheckpointException>map(
            other ->
                other.inProgress(
                    pid(), "CRIU stops it until that has ended", Failure.of(verb, pid())))
        .orElseGet(
            () ->
                new FixAndRetryException(
                    FixAndRetryException.Reason.PROCESS_STOPPED,
                    "process %s %s, and a driver call on it would hang: %s and try again"
                        .formatted(pid(), what, cure),
                    Failure.of(verb, pid())));
  }

  /** Sets the root that its journal entries name. */
  void setRoot(ProcessKey newRoot) {
    root = newRoot;
  }

  /** Returns whether an image has this process, or the process that it was restored from. */
  boolean isIn(ManifestData image) {
    return image.cudaProcesses().stream()
        .map(each -> new ProcessIdentity(each.pid(), each.startTicks()))
        .anyMatch(dumped -> dumped.equals(identity) || dumped.equals(history.origin()));
  }

  /** Returns whether no driver call can bring it back to running. */
  public boolean isLost() {
    return lastKnown == ProcessState.FAILED || isPoisoned();
  }

  /**
   * Returns whether a restore ran out of GPU memory, as far as the journal or this object knows.
   * The driver refuses every later restore (NVIDIA/cuda-checkpoint issue 44).
   */
  public boolean isPoisoned() {
    return history.poisoned();
  }

  /** Journals that a restore ran out of GPU memory and left the process checkpointed. */
  void poison() {
    history = history.poison();
    boolean unused = noteState(ProcessState.CHECKPOINTED);
  }

  /** Returns an image from which the process can be restored without a loss; null for none. */
  public @Nullable Path fallbackImage() {
    return history.fallback();
  }

  /** Sets such an image, for the journal entry of the restore that follows. */
  public void setFallbackImage(Path image) {
    history = history.fallingBackTo(image);
  }

  /**
   * Returns the GPUs of the machine on which it was checkpointed, by kind; empty for this machine.
   */
  Map<GpuUuid, String> gpusOfCheckpoint() {
    return history.gpus();
  }

  /** Returns the label of the process; null for none. */
  public @Nullable String label() {
    return history.label();
  }

  /** Sets the label, for the journal entries that follow. */
  void setLabel(String label) {
    history = history.labelled(label);
  }

  private Journal journal() {
    return new Journal(context.state());
  }

  public GpuUsage held() {
    return held;
  }

  /**
   * Reads what other controllers have journalled, such as the GPU memory that the process held
   * before it was checkpointed: it is newer than what this object has.
   */
  void readJournal() {
    journal()
        .find(key)
        .ifPresent(
            written -> {
              held = written.held();
              saveFiles = written.saveFiles();
              if (!written.isImageRestore()) {
                Path image = history.fallback();
                history =
                    image == null ? written.history() : written.history().fallingBackTo(image);
              }
            });
  }

  /**
   * Journals the step that begins, for a recovery if this JVM dies. A verb that leads back to
   * running continues if that fails: the entry from before its lock is enough.
   */
  public void note(String step, ProcessLock.Kind kind) {
    JournalEntry entry = entry(step, null, null);
    if (kind == ProcessLock.Kind.BRING_BACK) {
      journal().update(entry);
    } else {
      journal().write(entry);
    }
  }

  /** Journals that an image is being made, and the directory of CRIU's log. */
  public void note(String step, Path image, @Nullable Path log) {
    journal().write(entry(step, image, log));
  }

  /**
   * Journals the state of the process; null when it is not known.
   *
   * @return false when the entry was not written, so that a recovery needs the older one
   */
  public boolean noteState(@Nullable ProcessState state) {
    if (state == ProcessState.RUNNING || isKnownToBeGone()) {
      forget();
      return true;
    }
    if (state == ProcessState.LOCKED) {
      history = history.onGpu();
    }
    return state != null
        && journal().update(entry(state.name().toLowerCase(Locale.ROOT), null, null));
  }

  private JournalEntry entry(String step, @Nullable Path image, @Nullable Path log) {
    history = history.away();
    return JournalEntry.of(key, pid(), step, held, image, log)
        .in(saveFiles)
        .below(root)
        .after(history);
  }

  /**
   * Returns whether the process has exited, or was killed and is being torn down, which takes time
   * if it uses a GPU.
   */
  public boolean isGone() {
    return !identity.isAlive() || ProcFs.isEnding(pid());
  }

  /** If that is not known, the entry stays for a recovery. */
  private boolean isKnownToBeGone() {
    try {
      return isGone();
    } catch (ProcessUnreadableException e) {
      LOG.warn("whether process {} has ended is not known: {}", pid(), e.getMessage());
      return false;
    }
  }

  /** Removes the journal entry: nothing is left to mend. */
  public void forget() {
    foundRunning();
    journal().remove(key);
  }

  /** Ends the history of an earlier suspend, whose journal entry may still be there. */
  void foundRunning() {
    history = history.running(imageLabel);
  }

  public void recordGpuUsage(GpuUsage found) {
    held = found;
  }

  /** Returns the files that the driver's save areas may be in. */
  public List<FileId> saveFiles() {
    return saveFiles;
  }

  /** Records the files that the driver's save areas may be in, for the next journal entry. */
  public void recordSaveFiles(List<FileId> files) {
    saveFiles = List.copyOf(files);
  }

  /** Records that files belong to an image from now on, which outlives the resume. */
  public void forgetSaveFiles(List<FileId> inImage) {
    saveFiles = saveFiles.stream().filter(each -> !inImage.contains(each)).toList();
  }

  /** Returns the last move of the process by any controller. */
  Optional<Generation> lastMove() {
    return ProcessLock.lastMove(key, context.state());
  }

  /**
   * Reads the state without the lock, and remembers after which move that was. If the process is
   * moved during the read, the state is read again. If that does not end, the older move is
   * remembered, which makes the object stale rather than wrong.
   */
  public ProcessState look(ProcessOperation operation) {
    long begun = System.nanoTime();
    for (int reads = 1; ; reads++) {
      seen = lastMove();
      ProcessState state = operation.readState();
      Duration taken = Duration.ofNanos(System.nanoTime() - begun);
      boolean last = reads == MOST_READS || taken.compareTo(context.timeouts().call()) > 0;
      if (last || lastMove().equals(seen)) {
        return state;
      }
    }
  }

  /** Returns the last move that this JVM knows of; empty if none was recorded. */
  Optional<Generation> seen() {
    return seen;
  }

  /** Remembers a move that this JVM made. */
  void observeGeneration(Generation move) {
    seen = Optional.of(move);
  }

  /** Returns whether another controller has moved the process since, as far as is known. */
  boolean isMovedSince(Optional<Generation> last) {
    return last.isPresent() && !last.equals(seen);
  }

  /** Remembers and journals the state in which a verb left the process; null if not known. */
  public void setState(@Nullable ProcessState state) {
    lastKnown = state;
    noteState(state);
  }

  /** Remembers the state that was read, without a journal entry. */
  public void foundIn(ProcessState state) {
    lastKnown = state;
  }

  /** Returns the state that is known last; null if none is. */
  public @Nullable ProcessState lastKnown() {
    return lastKnown;
  }
}
