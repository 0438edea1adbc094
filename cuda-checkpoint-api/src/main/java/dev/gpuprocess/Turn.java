package dev.gpuprocess;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.OperationInProgressException;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.concurrent.ConcurrentHashMap;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A verb's turn at a process: one verb at a time, over all JVMs of this machine that have the same
 * state directory.
 */
final class Turn {

  private static final Logger LOG = LoggerFactory.getLogger(GpuProcess.class);

  /** What a verb is about to do, which tells what it needs of the other JVMs. */
  enum Kind {
    /** Reads, and is in no other JVM's way. */
    LOOK,
    /** Moves the process, and must not without being alone. */
    MOVE,
    /** Brings the process nearer to running, and does that also without a state directory. */
    BRING_BACK
  }

  private static final Map<ProcessIdentity, Turn> TAKEN = new ConcurrentHashMap<>();

  private final ProcessIdentity process;
  private final String verb;
  private LockFile.@Nullable Lock lock;
  private boolean wantedBack;

  private Turn(ProcessIdentity process, String verb) {
    this.process = process;
    this.verb = verb;
  }

  /**
   * Takes a turn, to be ended.
   *
   * @throws OperationInProgressException when another verb is at it, here or in another JVM
   * @throws GpuCheckpointException when the state directory cannot be used
   */
  static Turn take(ProcessIdentity process, String verb, Kind kind, Path stateDirectory) {
    Turn turn = new Turn(process, verb);
    Turn other = TAKEN.putIfAbsent(process, turn);
    if (other != null) {
      throw refused(other.verb + " is under way", process, verb);
    }
    try {
      turn.lock(kind, stateDirectory);
      return turn;
    } catch (RuntimeException | Error e) {
      turn.end();
      throw e;
    }
  }

  private synchronized void lock(Kind kind, Path stateDirectory) {
    int pid = process.pid();
    if (kind == Kind.LOOK) {
      otherJvm(process, stateDirectory)
          .ifPresent(jvm -> refuse(OptionalInt.of(jvm), process, verb));
      return;
    }
    try {
      lock = LockFile.tryLock(stateDirectory, pid).orElse(null);
      if (lock == null) {
        refuse(LockFile.holder(stateDirectory, pid), process, verb);
      }
    } catch (IOException e) {
      if (kind == Kind.MOVE) {
        throw new GpuCheckpointException(
            "the state directory %s cannot be used (%s): make room there or name another directory in GPUPROCESS_STATE_DIR; process %d was not touched"
                .formatted(stateDirectory, e, pid),
            Failure.of(verb, pid),
            e);
      }
      LOG.warn("{} of process {} goes on without {}: {}", verb, pid, stateDirectory, e.toString());
    }
  }

  private static void refuse(OptionalInt jvm, ProcessIdentity process, String verb) {
    throw refused(
        jvm.isPresent()
            ? "the controller with pid " + jvm.getAsInt() + " is at work"
            : "another JVM is at work",
        process,
        verb);
  }

  private static OperationInProgressException refused(
      String why, ProcessIdentity process, String verb) {
    return new OperationInProgressException(
        "%s on process %d; %s has to wait until it ends".formatted(why, process.pid(), verb),
        Failure.of(verb, process.pid()));
  }

  /** The pid of another JVM whose turn it is. */
  private static Optional<Integer> otherJvm(ProcessIdentity process, Path stateDirectory) {
    OptionalInt holder = LockFile.holder(stateDirectory, process.pid());
    return holder.isPresent() && holder.getAsInt() != ProcessHandle.current().pid()
        ? Optional.of(holder.getAsInt())
        : Optional.empty();
  }

  /** Says whose turn it is, for people. */
  static Optional<String> describe(ProcessIdentity process, Path stateDirectory) {
    Turn here = TAKEN.get(process);
    return here != null
        ? Optional.of(here.verb + " is at work on it in this JVM")
        : otherJvm(process, stateDirectory)
            .map(jvm -> "the controller with pid " + jvm + " is at work on it");
  }

  /**
   * Asks for the process to run again when the call that was left behind on it ends: nobody else
   * can get at it before.
   *
   * @return false when it is nobody's turn any more
   */
  static boolean wantBack(ProcessIdentity process) {
    Turn turn = TAKEN.get(process);
    return turn != null && turn.wantBack();
  }

  private synchronized boolean wantBack() {
    wantedBack = TAKEN.get(process) == this;
    return wantedBack;
  }

  /** Lets other verbs at the process again, after bringing it back if that was asked for. */
  void end(Runnable bringBack) {
    while (!endUnlessWantedBack()) {
      bringBack.run();
    }
  }

  private synchronized boolean endUnlessWantedBack() {
    if (wantedBack) {
      wantedBack = false;
      return false;
    }
    end();
    return true;
  }

  /** Lets other verbs at the process again. */
  synchronized void end() {
    try {
      if (lock != null) {
        lock.release();
      }
    } catch (IOException e) {
      LOG.warn(
          "the lock of process {} may stay until this JVM ends: {}", process.pid(), e.toString());
    } finally {
      lock = null;
      TAKEN.remove(process, this);
    }
  }
}
