package dev.gpuprocess.internal.recovery;

import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.engine.DriverOperation;
import dev.gpuprocess.internal.engine.TrackedProcess;
import dev.gpuprocess.internal.engine.TrackedTree;
import dev.gpuprocess.internal.journal.Journal;
import dev.gpuprocess.internal.journal.JournalEntry;
import dev.gpuprocess.internal.lock.Generation;
import dev.gpuprocess.internal.lock.ProcessLock;
import dev.gpuprocess.process.ProcessIdentity;
import dev.gpuprocess.progress.RecoveryOutcome;
import java.util.List;
import java.util.Optional;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * An entry whose controller lives. Either a verb of that controller is under way or about to begin,
 * or the entry is left over: a controller that could not find out how its verb ended, for example
 * for want of descriptors, leaves the entry. A process that runs while no verb works on it needs no
 * entry, nor does one that has ended.
 */
final class LiveControllersEntry extends EntryRecovery {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  LiveControllersEntry(EngineContext context, Journal journal, JournalEntry entry) {
    super(context, journal, entry);
  }

  /** Removes it if it is left over. The process is not touched. */
  RecoveredProcess run() {
    try {
      if (isLeftOver()) {
        return removed();
      }
      return found(
          entry.history().poisoned() && !isLocked()
              ? RecoveryOutcome.POISONED
              : RecoveryOutcome.IN_USE);
    } catch (GpuCheckpointException e) {
      LOG.debug("whether the entry of process {} is left over is not known", entry.pid(), e);
      return found(RecoveryOutcome.IN_USE);
    }
  }

  /** Looks without taking the lock, which would make the controller's next verb wait or fail. */
  private boolean isLeftOver() {
    if (isLocked()) {
      return false;
    }
    Optional<Generation> move = ProcessLock.lastMove(entry.key(), context.state());
    return isThere()
        && isSettled()
        && !isLocked()
        && ProcessLock.lastMove(entry.key(), context.state()).equals(move);
  }

  private boolean isLocked() {
    return ProcessLock.holder(entry.key(), context.state()).isPresent();
  }

  private boolean isThere() {
    return journal.find(entry.key()).equals(Optional.of(entry));
  }

  private boolean isSettled() {
    return entry.find().isGone()
        || entry.find().process().map(found -> isRunning(found.pid())).orElse(false);
  }

  private boolean isRunning(int pid) {
    DriverOperation reading = DriverOperation.reading(context, pid, VERB);
    return reading.target().key.equals(entry.key()) && reading.readState() == ProcessState.RUNNING;
  }

  private RecoveredProcess removed() {
    return entry
        .find()
        .process()
        .filter(ProcessIdentity::isAlive)
        .map(found -> removedOfRunning(found.pid()))
        .orElseGet(() -> locked(entry.key(), entry.pid(), this::removedOfGone));
  }

  private RecoveredProcess removedOfGone() {
    return isThere() && entry.find().isGone() ? gone() : found(RecoveryOutcome.IN_USE);
  }

  private RecoveredProcess removedOfRunning(int pid) {
    TrackedProcess target = TrackedProcess.of(context, pid, VERB);
    return TrackedTree.of(context, target.identity, List.of(target))
        .exclusively(
            VERB,
            ProcessLock.Kind.MOVE,
            0,
            verb -> {
              if (verb.each().isEmpty()
                  || !target.key.equals(entry.key())
                  || !isThere()
                  || verb.each().get(0).readState() != ProcessState.RUNNING) {
                return found(RecoveryOutcome.IN_USE);
              }
              target.forget();
              return found(RecoveryOutcome.RUNNING);
            });
  }
}
