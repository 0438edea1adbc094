package dev.gpuprocess.internal.engine;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.GpuProcess;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.error.ProcessStoppedException;
import dev.gpuprocess.error.ProcessUnreadableException;
import dev.gpuprocess.error.StaleStateException;
import dev.gpuprocess.image.Manifest;
import dev.gpuprocess.internal.journal.JournalEntry;
import dev.gpuprocess.internal.lock.Generation;
import dev.gpuprocess.internal.lock.ProcessLock;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.internal.proc.Standstill;
import dev.gpuprocess.internal.process.ProcessKey;
import dev.gpuprocess.internal.process.Processes;
import dev.gpuprocess.internal.room.Holdings;
import dev.gpuprocess.internal.time.Durations;
import dev.gpuprocess.process.ProcessIdentity;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Locale;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The process behind a line of state objects. It knows which of them is the current one and lets
 * one verb at a time work on the process.
 */
final class TrackedProcess {

  private static final Logger LOG = LoggerFactory.getLogger(GpuProcess.class);
  private static final long POLL_NANOS = 1_000_000;

  private static final int MOST_LOOKS = 10;

  final GpuCheckpoints checkpoints;
  final ProcessIdentity identity;

  /** The same in every pid namespace: its lock and its journal entry are called so. */
  final ProcessKey key;

  /** What the process held on each GPU when it was last seen there. */
  private volatile Holdings held;

  /** The last move of the process that this line knows of; empty where none was written down. */
  private volatile Optional<Generation> seen = Optional.empty();

  /** Where the last verb of this line left the process, also one that failed; null if not known. */
  private volatile @Nullable ProcessState leftAt;

  private final AtomicInteger current = new AtomicInteger();

  /** Who it was when the image was made that it came back from; itself when there was none. */
  private final ProcessIdentity origin;

  TrackedProcess(GpuCheckpoints checkpoints, ProcessIdentity identity, Holdings held) {
    this(checkpoints, identity, held, identity);
  }

  TrackedProcess(
      GpuCheckpoints checkpoints, ProcessIdentity identity, Holdings held, ProcessIdentity origin) {
    this.checkpoints = checkpoints;
    this.identity = identity;
    this.key = ProcessKey.of(identity);
    this.held = held;
    this.origin = origin;
  }

  /** Finds the process of a pid. */
  static TrackedProcess of(GpuCheckpoints checkpoints, long pid, String verb) {
    ProcessIdentity identity =
        ProcessIdentity.of(pid)
            .orElseThrow(
                () ->
                    new NoSuchProcessException(
                        pid <= 0
                            ? pid + " is not a process id: process ids start at 1"
                            : "there is no process " + pid + ": it ended, or never was",
                        Failure.of(verb, pid)));
    TrackedProcess target = new TrackedProcess(checkpoints, identity, Holdings.UNKNOWN);
    target.seen = target.lastMove();
    // Whoever checkpointed it wrote down what it held.
    target.adoptHeld();
    return target;
  }

  int pid() {
    return identity.pid();
  }

  /** Tells whether an image is one of this process, or the one that it came back from. */
  boolean isIn(Manifest image) {
    ProcessIdentity dumped = new ProcessIdentity(image.pid(), image.startTicks());
    return dumped.equals(identity) || dumped.equals(origin);
  }

  Holdings held() {
    return held;
  }

  /** What another controller wrote down since we looked is newer than what we remember. */
  private void adoptHeld() {
    checkpoints.journal().find(key).map(JournalEntry::held).ifPresent(written -> held = written);
  }

  /**
   * Says in the journal what is about to be done, so that it can be mended if we die now. Whoever
   * brings the process back goes on without: what was written before it was locked would do.
   */
  void note(String step, ProcessLock.Kind kind) {
    JournalEntry entry = entry(step, null, null);
    if (kind == ProcessLock.Kind.BRING_BACK) {
      checkpoints.journal().update(entry);
    } else {
      checkpoints.journal().write(entry);
    }
  }

  /** Says in the journal that an image is being made, and where CRIU's log is meanwhile. */
  void note(String step, Path image, @Nullable Path log) {
    checkpoints.journal().write(entry(step, image, log));
  }

  /** Says in the journal what the process has come to; null when that is not known. */
  void noteState(@Nullable ProcessState state) {
    if (state == ProcessState.RUNNING || isKnownToBeGone()) {
      forget();
    } else if (state != null) {
      checkpoints.journal().update(entry(state.name().toLowerCase(Locale.ROOT), null, null));
    }
  }

  private JournalEntry entry(String step, @Nullable Path image, @Nullable Path log) {
    return JournalEntry.of(key, pid(), step, held, image, log);
  }

  /** It has ended, or has been killed and is being torn down, which a GPU can take a while for. */
  boolean isGone() {
    return !identity.isAlive() || ProcFs.isEnding(pid());
  }

  /** The entry of one that nothing is known of stays: a recovery can look later. */
  private boolean isKnownToBeGone() {
    try {
      return isGone();
    } catch (ProcessUnreadableException e) {
      LOG.warn("whether process {} has ended is not known: {}", pid(), e.getMessage());
      return false;
    }
  }

  /** Nothing is left to mend. */
  void forget() {
    checkpoints.journal().remove(key);
  }

  void nowHolds(Holdings found) {
    held = found;
  }

  /** The generation that the next state object of this process will have. */
  int advance() {
    return current.incrementAndGet();
  }

  boolean isCurrent(int generation) {
    return current.get() == generation;
  }

  /** The last move of the process by any controller, as of now. */
  Optional<Generation> lastMove() {
    return ProcessLock.lastMove(key, checkpoints.state());
  }

  /**
   * Reads the state without taking anybody's turn, and remembers after which move that was. When
   * the process is moved meanwhile it is read again; in the end the older move is remembered, which
   * makes the object stale rather than wrong.
   */
  ProcessState look(DriverOperation verb) {
    long begun = System.nanoTime();
    for (int looks = 1; ; looks++) {
      seen = lastMove();
      ProcessState state = verb.readState();
      Duration taken = Duration.ofNanos(System.nanoTime() - begun);
      boolean last = looks == MOST_LOOKS || taken.compareTo(checkpoints.timeouts().call()) > 0;
      if (last || lastMove().equals(seen)) {
        return state;
      }
    }
  }

  /** This line knows of a move, since it made it. */
  void sees(Optional<Generation> move) {
    seen = move;
  }

  /** Whether somebody else moved the process since this line last saw it, where that is known. */
  boolean isMovedSince(Optional<Generation> last) {
    return last.isPresent() && !last.equals(seen);
  }

  /** A verb of this line leaves the process there; null when that is not known. */
  void leaveAt(@Nullable ProcessState state) {
    leftAt = state;
    noteState(state);
  }

  /** Whether a verb of this line left the process there. */
  boolean wasLeftAt(ProcessState state) {
    return leftAt == state;
  }

  /**
   * Runs a verb of a state object: alone on this process, on the very process it was, and only if
   * no newer state object took over.
   */
  <T> T exclusively(
      String name, ProcessLock.Kind kind, int generation, Function<DriverOperation, T> body) {
    ProcessLock turn =
        ProcessLock.take(
            key, pid(), name, kind, checkpoints.state(), checkpoints.timeouts().call());
    DriverOperation verb = new DriverOperation(this, name, turn);
    try {
      if (!isCurrent(generation)) {
        throw new StaleStateException(
            "process %s has moved on since this object was made; go on with the newest one, or with GpuProcess.inspect(%s)"
                .formatted(pid(), pid()),
            Failure.of(name, pid()));
      }
      requireReachable(name);
      adoptHeld();
      return body.apply(verb);
    } finally {
      verb.endTurn();
    }
  }

  /** Ends this very process; the handle of the JDK checks its start time as well. */
  void end() {
    ProcessHandle.of(pid())
        .filter(handle -> identity.isAlive())
        .ifPresent(ProcessHandle::destroyForcibly);
    long end = Durations.end(checkpoints.timeouts().call());
    while (identity.isAlive()) {
      if (Durations.left(end) < 0) {
        throw new OperationTimedOutException(
            "process %s does not end: the kernel holds it, look at /proc/%s/stack"
                .formatted(pid(), pid()),
            Failure.of("end", pid()));
      }
      LockSupport.parkNanos(POLL_NANOS);
    }
    forget();
  }

  /** A driver call on a stopped process hangs for ever, and one on a reused pid hits a stranger. */
  void requireReachable(String name) {
    if (!identity.isAlive()) {
      forget();
    }
    ProcStat stat =
        Processes.stat(identity)
            .orElseThrow(() -> new NoSuchProcessException(goneMessage(), Failure.of(name, pid())));
    if (stat.isDead()) {
      throw new NoSuchProcessException(
          "process %s has ended; its parent %s has not reaped it yet"
              .formatted(pid(), stat.parent()),
          Failure.of(name, pid()));
    }
    if (ProcFs.isFrozen(pid())) {
      throw new ProcessStoppedException(
          "process %s is in a frozen cgroup, and a driver call on it would hang: thaw it and try again"
              .formatted(pid()),
          Failure.of(name, pid()));
    }
    Standstill.of(pid())
        .ifPresent(
            still -> {
              throw new ProcessStoppedException(
                  "process %s %s, and a driver call on it would hang: let it continue (%s) and try again"
                      .formatted(pid(), still.what(), still.cure()),
                  Failure.of(name, pid()));
            });
  }

  private String goneMessage() {
    return ProcessIdentity.of(pid()).isPresent()
        ? "process %s has ended, and its pid belongs to another process now".formatted(pid())
        : "process %s has ended".formatted(pid());
  }
}
