package dev.gpuprocess.internal.lock;

import dev.gpuprocess.error.OperationInProgressException;
import dev.gpuprocess.error.StateDirectoryException;
import dev.gpuprocess.internal.os.Descriptors;
import dev.gpuprocess.internal.process.ProcessKey;
import dev.gpuprocess.internal.time.Polling;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.BooleanSupplier;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A verb's turn at a process: one verb at a time, over all JVMs of this machine that have the same
 * state directory.
 */
public final class ProcessLock {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  /** What a verb is about to do, which tells what it needs of the other JVMs. */
  public enum Kind {
    /** Moves the process, and must not without being alone; does not wait for others. */
    MOVE,
    /**
     * Brings the process nearer to running: waits for others, and does without a state directory
     * where there is none to use.
     */
    BRING_BACK
  }

  /** By the name of the lock. */
  private static final Map<String, ProcessLock> TAKEN = new ConcurrentHashMap<>();

  private final ProcessKey process;
  private final int pid;
  private final String verb;
  private final Kind kind;
  private final StateDirectory state;
  private @Nullable NamedLock held;
  private boolean wantedBack;
  private volatile boolean atCriu;

  private ProcessLock(ProcessKey process, int pid, String verb, Kind kind, StateDirectory state) {
    this.process = process;
    this.pid = pid;
    this.verb = verb;
    this.kind = kind;
    this.state = state;
  }

  /**
   * Takes a turn, to be ended.
   *
   * @param process who it is; whoever has its pid shares the turns with it
   * @param pid its pid here
   * @param patience how long what brings back waits for others
   * @throws OperationInProgressException when another verb is at it, here or in another JVM
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
      while (true) {
        Optional<LockConflict> conflict = lock.tryTake();
        if (conflict.isEmpty()) {
          return lock;
        }
        if (!waiting.pause()) {
          throw conflict.get().inProgress(verb, pid);
        }
      }
    }
  }

  /** Takes it, or tells what is under way. */
  private Optional<LockConflict> tryTake() {
    ProcessLock other = TAKEN.putIfAbsent(lockName(process), this);
    if (other != null) {
      return Optional.of(new LockConflict(other.verb + " is under way", Optional.of(other.self())));
    }
    boolean taken = false;
    try {
      taken = lock();
      if (taken) {
        return Optional.empty();
      }
      Optional<LockHolder> holder = lockHolder(process, state);
      return Optional.of(
          new LockConflict(
              holder.map(LockHolder::toString).orElse("another JVM") + " is at work", holder));
    } finally {
      if (!taken) {
        TAKEN.remove(lockName(process), this);
      }
    }
  }

  private synchronized boolean lock() {
    try {
      held = state.tryLock(lockName(process), verb).orElse(null);
      return held != null;
    } catch (IOException e) {
      // For want of descriptors it cannot be seen whose turn it is: whoever has it is not
      // disturbed.
      if (kind == Kind.MOVE || Descriptors.areUsedUp(e)) {
        throw state.unusable(e, verb, pid);
      }
      LOG.warn("{} of process {} goes on without {}: {}", verb, pid, state.path(), e.toString());
      return true;
    }
  }

  /** One for each pid, whoever has it: what CRIU is about to restore has no start time yet. */
  private static String lockName(ProcessKey process) {
    return "%s-%s".formatted(Long.toString(process.namespace()), Integer.toString(process.pid()));
  }

  /** Whose turn it is, in this JVM or another; empty when it is nobody's, as far as is known. */
  public static Optional<LockHolder> holder(ProcessKey process, StateDirectory state) {
    ProcessLock here = TAKEN.get(lockName(process));
    return here != null ? Optional.of(here.self()) : lockHolder(process, state);
  }

  private LockHolder self() {
    return LockHolder.self(verb, atCriu);
  }

  /**
   * Who has CRIU at a process, in this JVM or another; empty when nobody has, as far as is known.
   */
  public static Optional<LockHolder> holderAtCriu(ProcessKey process, StateDirectory state) {
    return holder(process, state).filter(LockHolder::atCriu);
  }

  /**
   * Says that CRIU is about to stop or build the process, or is done; readers keep off meanwhile.
   */
  public synchronized void atCriu(boolean now) {
    atCriu = now;
    if (held != null) {
      try {
        held.sign(self());
      } catch (IOException e) {
        LOG.warn("that CRIU is at process {} is known in this JVM alone: {}", pid, e.toString());
      }
    }
  }

  private static Optional<LockHolder> lockHolder(ProcessKey process, StateDirectory state) {
    try {
      return state.holder(lockName(process));
    } catch (IOException e) {
      LOG.debug("who is at process {} cannot be read", process, e);
      return Optional.empty();
    }
  }

  /** Says whose turn it is, for people. */
  public static Optional<String> describe(ProcessKey process, StateDirectory state) {
    ProcessLock here = TAKEN.get(lockName(process));
    return here != null
        ? Optional.of(here.verb + " is at work on it in this JVM")
        : lockHolder(process, state).map(holder -> holder + " is at work on it");
  }

  /**
   * Tells which move of the process was the last one, over all JVMs.
   *
   * @return empty when that is not known
   */
  public static Optional<Generation> lastMove(ProcessKey process, StateDirectory state) {
    try {
      return Generation.parse(state.note(lockName(process)), process);
    } catch (IOException e) {
      LOG.debug("what was done to process {} cannot be read", process, e);
      return Optional.empty();
    }
  }

  /** The same, as nobody else can change it now. */
  public synchronized Optional<Generation> lastMove() {
    return held == null ? Optional.empty() : Generation.parse(held.note(), process);
  }

  /**
   * Says that the process is moved now, which all state objects but the caller's are told by.
   *
   * @return empty when it could not be written down
   * @throws StateDirectoryException when it could not, and must be
   */
  public Optional<Generation> move() {
    try {
      return writeMove();
    } catch (IOException e) {
      if (kind == Kind.MOVE) {
        throw state.unusable(e, verb, pid);
      }
      return notWritten(e);
    }
  }

  /** The same for one towards running, which is made in any case. */
  public Optional<Generation> moveBack() {
    try {
      return writeMove();
    } catch (IOException e) {
      return notWritten(e);
    }
  }

  private Optional<Generation> notWritten(IOException e) {
    LOG.warn("{} of process {} is not written down: {}", verb, pid, e.toString());
    return Optional.empty();
  }

  private synchronized Optional<Generation> writeMove() throws IOException {
    if (held == null) {
      return Optional.empty();
    }
    Generation next = Generation.next(process);
    held.note(next.text());
    return Optional.of(next);
  }

  /**
   * Asks for the process to run again when the turn that is taken in this JVM ends: nobody else can
   * get at it before.
   *
   * @return false when it is nobody's turn any more
   */
  public static boolean wantBack(ProcessKey process) {
    ProcessLock lock = TAKEN.get(lockName(process));
    return lock != null && lock.wantBack();
  }

  private synchronized boolean wantBack() {
    wantedBack = TAKEN.get(lockName(process)) == this;
    return wantedBack;
  }

  /**
   * Lets other verbs at the process again, after bringing it back if that was asked for.
   *
   * @param bringBack false when it goes on by itself, and ends the turn then
   */
  public void release(BooleanSupplier bringBack) {
    while (!releaseUnlessWantedBack()) {
      try {
        if (!bringBack.getAsBoolean()) {
          return;
        }
      } catch (RuntimeException | Error e) {
        LOG.warn("process {} could not be brought back; inspect finds it", pid, e);
      }
    }
  }

  private synchronized boolean releaseUnlessWantedBack() {
    if (wantedBack) {
      wantedBack = false;
      return false;
    }
    release();
    return true;
  }

  /** Lets other verbs at the process again. */
  public synchronized void release() {
    try {
      if (held != null) {
        if (Files.notExists(Path.of("/proc", Integer.toString(pid)), LinkOption.NOFOLLOW_LINKS)) {
          held.closeAndForget();
        } else {
          held.close();
        }
      }
    } catch (IOException e) {
      LOG.warn("the lock of process {} stays as a file: {}", pid, e.toString());
    } finally {
      held = null;
      TAKEN.remove(lockName(process), this);
    }
  }
}
