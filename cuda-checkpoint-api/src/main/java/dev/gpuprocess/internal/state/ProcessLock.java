package dev.gpuprocess.internal.state;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.OperationInProgressException;
import dev.gpuprocess.internal.linux.Descriptors;
import dev.gpuprocess.internal.linux.ProcessKey;
import dev.gpuprocess.internal.linux.ProcessSearch;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.time.Polling;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.time.Duration;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The lock of a process: one verb at a time works on it, across all JVMs of this machine that use
 * the same state directory. Safe for use by several threads.
 */
public final class ProcessLock {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  /** What a verb is about to do, which determines how strict the lock is. */
  public enum Kind {
    /** Moves the process away from running: needs the lock, and does not wait for it. */
    MOVE,
    /**
     * Brings the process back towards running: waits for the lock, and continues without a lock if
     * the state directory cannot be used.
     */
    BRING_BACK
  }

  /** The locks that this JVM holds, by name. */
  private static final Map<String, ProcessLock> TAKEN = new ConcurrentHashMap<>();

  private static final int MOST_TRIES = 100;
  private static final Pattern LOCK_NAME = Pattern.compile("(\\d{1,18})-(\\d{1,9})");

  private final ProcessKey process;
  private final int pid;
  private final String verb;
  private final Kind kind;
  private final StateDirectory state;
  private @Nullable NamedLock held;

  /** The last move before this lock was taken. */
  private Optional<Generation> moveBefore = Optional.empty();

  private boolean bringsBack;
  private boolean resumeRequested;
  private volatile LockHolder holder;

  private ProcessLock(ProcessKey process, int pid, String verb, Kind kind, StateDirectory state) {
    this.process = process;
    this.pid = pid;
    this.verb = verb;
    this.kind = kind;
    this.state = state;
    this.holder = LockHolder.self(verb);
  }

  /**
   * Takes the lock; to be released.
   *
   * @param process the process; the lock is that of its pid, whichever process has it
   * @param pid the pid of the process here
   * @param patience how long {@link Kind#BRING_BACK} waits for others
   * @throws OperationInProgressException when another verb works on the process, in this JVM or
   *     another
   * @throws StateDirectoryException when the state directory cannot be used
   */
  public static ProcessLock take(
      ProcessKey process,
      int pid,
      String verb,
      Kind kind,
      StateDirectory state,
      Duration patience) {
    ProcessLock lock = new ProcessLock(process, pid, verb, kind, state);
    try (Polling waiting = new Polling(kind == Kind.BRING_BACK ? patience : Duration.ZERO)) {
      for (int tries = 1; ; tries++) {
        if (lock.tryTake()) {
          return lock;
        }
        Optional<LockHolder> other = holder(process, state);
        // Without a holder the lock was released just now, or its file is being written.
        if (!waiting.pause() && (other.isPresent() || tries >= MOST_TRIES)) {
          throw lock.refused(other);
        }
      }
    }
  }

  private boolean tryTake() {
    if (TAKEN.putIfAbsent(lockName(process), this) != null) {
      return false;
    }
    boolean taken = false;
    try {
      taken = lock();
      return taken;
    } finally {
      if (!taken) {
        TAKEN.remove(lockName(process), this);
      }
    }
  }

  private OperationInProgressException refused(Optional<LockHolder> other) {
    Failure failure = Failure.of(verb, pid);
    return other
        .map(
            known ->
                known.inProgress(pid, "try %s again when that has ended".formatted(verb), failure))
        .orElseGet(
            () ->
                new OperationInProgressException(
                    "another verb had the lock of process %s a moment ago: try %s again"
                        .formatted(pid, verb),
                    failure));
  }

  private synchronized boolean lock() {
    try {
      held = state.tryLock(lockName(process), holder).orElse(null);
      moveBefore = lastMove();
      return held != null;
    } catch (IOException e) {
      // Without free descriptors the holder of the lock is not known, so it must not be ignored.
      if (kind == Kind.MOVE || Descriptors.areUsedUp(e)) {
        throw state.unusable(e, verb, pid);
      }
      LOG.warn("{} of process {} continues without {}: {}", verb, pid, state.path(), e.toString());
      return true;
    }
  }

  /**
   * Removes the lock files of processes that have exited, except locks that are held.
   *
   * @throws IOException when the directory cannot or must not be used
   */
  public static void removeStale(StateDirectory state) throws IOException {
    for (String name : state.lockNames()) {
      Matcher of = LOCK_NAME.matcher(name);
      if (of.matches() && hasEnded(of, state.note(name))) {
        state.tryLock(name, "tidy up").ifPresent(NamedLock::closeAndForget);
      }
    }
  }

  /** The note has the start time of the process that had the pid, if it was ever moved. */
  private static boolean hasEnded(Matcher name, String note) {
    Optional<Generation> last = Generation.parse(note);
    return (last.isPresent() && !last.get().isOfThisBoot())
        || ProcessSearch.find(
                Long.parseLong(name.group(1)),
                Integer.parseInt(name.group(2)),
                start -> last.isEmpty() || last.get().startTicks() == start)
            .isGone();
  }

  /**
   * Returns the name of the lock. There is one for each pid: a process that CRIU is about to
   * restore has no start time yet.
   */
  private static String lockName(ProcessKey process) {
    return "%s-%s".formatted(Long.toString(process.namespace()), Integer.toString(process.pid()));
  }

  /** Returns the holder of the lock, in this JVM or another; empty if none is known. */
  public static Optional<LockHolder> holder(ProcessKey process, StateDirectory state) {
    ProcessLock here = TAKEN.get(lockName(process));
    return here != null ? Optional.of(here.holder) : lockHolder(process, state);
  }

  /**
   * Returns the holder of the lock if CRIU is working on the process for it; empty if none is
   * known.
   */
  public static Optional<LockHolder> holderAtCriu(ProcessKey process, StateDirectory state) {
    return holder(process, state).filter(LockHolder::atCriu);
  }

  /**
   * Records that CRIU is about to stop or create the process, or has finished; other controllers do
   * not read its state at that moment.
   */
  public synchronized void atCriu(boolean now) {
    holder = holder.atCriu(now);
    if (held != null) {
      try {
        held.sign(holder);
      } catch (IOException e) {
        LOG.warn(
            "other controllers cannot see that CRIU works on process {}: {}", pid, e.toString());
      }
    }
  }

  private static Optional<LockHolder> lockHolder(ProcessKey process, StateDirectory state) {
    try {
      return state.holder(lockName(process));
    } catch (IOException e) {
      LOG.debug("the holder of the lock of process {} cannot be read", process, e);
      return Optional.empty();
    }
  }

  /** Describes which controller works on a process; empty if none is known. */
  public static Optional<String> describe(ProcessKey process, StateDirectory state) {
    ProcessLock here = TAKEN.get(lockName(process));
    return here != null
        ? Optional.of(here.verb + " is at work on it in this JVM")
        : lockHolder(process, state).map(holder -> holder + " is at work on it");
  }

  /**
   * Reads the last move of the process, across all JVMs.
   *
   * @return empty if that is not known
   */
  public static Optional<Generation> lastMove(ProcessKey process, StateDirectory state) {
    try {
      return Generation.parse(state.note(lockName(process)), process);
    } catch (IOException e) {
      LOG.debug("the last move of process {} cannot be read", process, e);
      return Optional.empty();
    }
  }

  /** Returns the last move of the locked process, which no other controller can change now. */
  public synchronized Optional<Generation> lastMove() {
    return held == null ? Optional.empty() : Generation.parse(held.note(), process);
  }

  /**
   * Records that the process is moved now, which makes all other state objects stale.
   *
   * @return empty when it could not be recorded
   * @throws StateDirectoryException when it could not be recorded, and must be
   */
  public Optional<Generation> move() {
    return move(kind);
  }

  /** Records a move towards running, which is made even if it cannot be recorded. */
  public Optional<Generation> moveBack() {
    return move(Kind.BRING_BACK);
  }

  private synchronized Optional<Generation> move(Kind direction) {
    if (held == null) {
      return Optional.empty();
    }
    Generation next = Generation.next(process);
    try {
      held.note(next.text());
      return Optional.of(next);
    } catch (IOException e) {
      if (direction == Kind.MOVE) {
        throw state.unusable(e, verb, pid);
      }
      LOG.warn("{} of process {} could not be recorded: {}", verb, pid, e.toString());
      return Optional.empty();
    }
  }

  /** Returns the last move before the lock was taken, by any controller; empty if not known. */
  public synchronized Optional<Generation> moveBefore() {
    return moveBefore;
  }

  /** Declares that the lock will be released by {@link #release(BooleanSupplier)}. */
  public synchronized void willBringBack() {
    bringsBack = true;
  }

  /**
   * Requests that the process is brought back to running when the lock that this JVM holds is
   * released, before another controller can take it.
   *
   * @param check throws if the verb that holds the lock must not be undone
   * @return false if this JVM no longer holds the lock, or holds it for a verb that does not bring
   *     processes back
   */
  public static boolean requestResume(ProcessKey process, Consumer<ProcessLock> check) {
    ProcessLock lock = TAKEN.get(lockName(process));
    return lock != null && lock.requestResume(check);
  }

  private synchronized boolean requestResume(Consumer<ProcessLock> check) {
    boolean isHeld = bringsBack && TAKEN.get(lockName(process)) == this;
    if (isHeld) {
      check.accept(this);
      resumeRequested = true;
    }
    return isHeld;
  }

  /**
   * Releases the lock, after bringing the process back if that was requested.
   *
   * @param bringBack returns false if that continues on another thread, which then releases the
   *     lock
   */
  public void release(BooleanSupplier bringBack) {
    while (!releaseUnlessRequested()) {
      try {
        if (!bringBack.getAsBoolean()) {
          return;
        }
      } catch (RuntimeException | Error e) {
        LOG.warn(
            "process {} could not be brought back; GpuProcess.inspect returns its state", pid, e);
      }
    }
  }

  private synchronized boolean releaseUnlessRequested() {
    if (resumeRequested) {
      resumeRequested = false;
      return false;
    }
    release();
    return true;
  }

  /** Releases the lock. Does nothing if it is released. */
  public synchronized void release() {
    try {
      if (held != null && Files.notExists(ProcFs.file(pid), LinkOption.NOFOLLOW_LINKS)) {
        held.closeAndForget();
      } else if (held != null) {
        held.close();
      }
    } finally {
      held = null;
      TAKEN.remove(lockName(process), this);
    }
  }
}
