package dev.gpuprocess.internal.engine;

import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.error.ProcessUnreadableException;
import dev.gpuprocess.image.Manifest;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.journal.Journal;
import dev.gpuprocess.internal.journal.JournalEntry;
import dev.gpuprocess.internal.journal.ProcessHistory;
import dev.gpuprocess.internal.linux.ProcessKey;
import dev.gpuprocess.internal.lock.Generation;
import dev.gpuprocess.internal.lock.ProcessLock;
import dev.gpuprocess.internal.proc.AddressRange;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.reservation.GpuUsage;
import dev.gpuprocess.internal.room.Holdings;
import dev.gpuprocess.process.ProcessIdentity;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** A member of a {@link TrackedTree}. */
public final class TrackedProcess {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  private static final int MOST_LOOKS = 10;

  public final EngineContext context;
  public final ProcessIdentity identity;

  /** The same in every pid namespace; names the lock and the journal entry. */
  public final ProcessKey key;

  /** What the process held on each GPU when it was last seen there. */
  private volatile GpuUsage held;

  /** The memory that the driver mapped at the checkpoint, as far as that was observed. */
  private volatile List<AddressRange> areas = List.of();

  /** The last move of the process that we know of; empty where none was recorded. */
  private volatile Optional<Generation> seen = Optional.empty();

  /** Where our last verb left the process, failed or not; null if not known. */
  private volatile @Nullable ProcessState leftAt;

  /** The root of the tree that it is moved with. */
  private volatile ProcessKey root;

  /** What its journal entries keep from one step to the next. */
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
    this.root = key;
  }

  /** Finds the process of a pid. */
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

  /** The process that has this identity, as far as others have told of it. */
  static TrackedProcess of(EngineContext context, ProcessIdentity identity) {
    TrackedProcess target = new TrackedProcess(context, identity, GpuUsage.UNKNOWN);
    target.seen = target.lastMove();
    // The controller that checkpointed it journalled what it held.
    target.adoptHeld();
    return target;
  }

  public int pid() {
    return identity.pid();
  }

  /** Has its journal entries name the root of its tree from now on. */
  void setRoot(ProcessKey newRoot) {
    root = newRoot;
  }

  /** Whether an image has this process, or the one that it was restored from. */
  boolean isIn(Manifest image) {
    return image.cudaProcesses().stream()
        .map(each -> new ProcessIdentity(each.pid(), each.startTicks()))
        .anyMatch(dumped -> dumped.equals(identity) || dumped.equals(history.origin()));
  }

  /** Whether it was last seen where no driver call brings it back to running. */
  public boolean isLost() {
    return leftAt == ProcessState.FAILED || isPoisoned();
  }

  /**
   * Whether a restore ran out of GPU memory, as far as the journal or this object knows. The driver
   * refuses every later restore (NVIDIA/cuda-checkpoint issue 44).
   */
  public boolean isPoisoned() {
    return history.poisoned();
  }

  /** Journals that a restore ran out of GPU memory and left the process checkpointed. */
  void poison() {
    history = history.poison();
    boolean unused = noteState(ProcessState.CHECKPOINTED);
  }

  /** An image from which the process can be restored without a loss; null for none. */
  public @Nullable Path fallbackImage() {
    return history.fallback();
  }

  /** Remembers such an image, for the journal entry of the restore that follows. */
  public void hasFallbackImage(Path image) {
    history = history.fallingBackTo(image);
  }

  private Journal journal() {
    return new Journal(context.state());
  }

  public GpuUsage held() {
    return held;
  }

  /** What another controller has journalled since is newer than what we remember. */
  void adoptHeld() {
    journal()
        .find(key)
        .ifPresent(
            written -> {
              held = written.held();
              areas = written.areas();
              if (!written.isImageRestore()) {
                Path image = history.fallback();
                history =
                    image == null ? written.history() : written.history().fallingBackTo(image);
              }
            });
  }

  /**
   * Journals what is about to be done, so that a recovery can mend it if we die. A verb that leads
   * back to running goes on when this fails: the entry made before the lock will do.
   */
  public void note(String step, ProcessLock.Kind kind) {
    JournalEntry entry = entry(step, null, null);
    if (kind == ProcessLock.Kind.BRING_BACK) {
      journal().update(entry);
    } else {
      journal().write(entry);
    }
  }

  /** Journals that an image is being made, and where CRIU's log is meanwhile. */
  public void note(String step, Path image, @Nullable Path log) {
    journal().write(entry(step, image, log));
  }

  /**
   * Journals the state of the process; null when it is not known.
   *
   * @return false when a recovery needs to be told by an older entry, as this one is not written
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
    return JournalEntry.of(key, pid(), step, held, image, log).in(areas).below(root).after(history);
  }

  /**
   * Whether the process has ended, or was killed and is being torn down, which takes a while with a
   * GPU.
   */
  public boolean isGone() {
    return !identity.isAlive() || ProcFs.isEnding(pid());
  }

  /** Where that is not known the entry stays, and a recovery can look later. */
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
    history = history.running();
    journal().remove(key);
  }

  public void nowHolds(GpuUsage found) {
    held = found;
  }

  /** The memory that the driver mapped at the checkpoint; empty where that was not observed. */
  public List<AddressRange> areas() {
    return areas;
  }

  /** Notes the memory that the driver mapped at the checkpoint. To be journalled by the caller. */
  public void nowSavedIn(List<AddressRange> found) {
    areas = List.copyOf(found);
  }

  /** The last move of the process by any controller. */
  Optional<Generation> lastMove() {
    return ProcessLock.lastMove(key, context.state());
  }

  /**
   * Reads the state without the lock, and remembers after which move that was. When the process is
   * moved meanwhile it reads again; when that never ends, the older move is remembered, which makes
   * the object stale rather than wrong.
   */
  public ProcessState look(DriverOperation operation) {
    long begun = System.nanoTime();
    for (int looks = 1; ; looks++) {
      seen = lastMove();
      ProcessState state = operation.readState();
      Duration taken = Duration.ofNanos(System.nanoTime() - begun);
      boolean last = looks == MOST_LOOKS || taken.compareTo(context.timeouts().call()) > 0;
      if (last || lastMove().equals(seen)) {
        return state;
      }
    }
  }

  /** The last move that we know of; empty where none was recorded. */
  Optional<Generation> seen() {
    return seen;
  }

  /** Remembers a move that we made. */
  void sees(Optional<Generation> move) {
    seen = move;
  }

  /** Whether somebody else moved the process since we last saw it, as far as is known. */
  boolean isMovedSince(Optional<Generation> last) {
    return last.isPresent() && !last.equals(seen);
  }

  /** Remembers and journals where our verb left the process; null when not known. */
  public void leaveAt(@Nullable ProcessState state) {
    leftAt = state;
    noteState(state);
  }

  /** Remembers where we found it, which is no news to a recovery. */
  public void isAt(ProcessState state) {
    leftAt = state;
  }

  /** Where it was when we last knew; null when that is not known. */
  public @Nullable ProcessState lastKnown() {
    return leftAt;
  }

  /** Whether our last verb left the process there. */
  boolean wasLeftAt(ProcessState state) {
    return leftAt == state;
  }
}
