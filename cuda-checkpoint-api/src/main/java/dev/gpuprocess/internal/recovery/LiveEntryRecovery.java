package dev.gpuprocess.internal.recovery;

import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.engine.ProcessOperation;
import dev.gpuprocess.internal.engine.TrackedProcess;
import dev.gpuprocess.internal.engine.TrackedTree;
import dev.gpuprocess.internal.state.Generation;
import dev.gpuprocess.internal.state.Journal;
import dev.gpuprocess.internal.state.JournalEntry;
import dev.gpuprocess.internal.state.ProcessLock;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.report.RecoveryOutcome;
import java.util.List;
import java.util.Optional;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * An entry of a live controller. Either a verb of that controller is under way or about to begin,
 * or the entry is left over: a controller that could not find out how its verb ended, for example
 * because it had no free descriptor, leaves the entry. A process that is running without a verb
 * under way, or has exited, needs no entry.
 */
final class LiveEntryRecovery extends EntryRecovery {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  LiveEntryRecovery(EngineContext context, Journal journal, JournalEntry entry) {
    super(context, journal, entry);
  }

  /** Removes the entry if it is left over. Does not touch the process. */
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

  /** Checks without the lock, since taking it would make a verb of the controller wait or fail. */
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
    ProcessOperation reading = ProcessOperation.reading(context, pid, Recovery.VERB);
    return reading.process().key.equals(entry.key()) && reading.readState() == ProcessState.RUNNING;
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
    TrackedProcess process = TrackedProcess.of(context, pid, Recovery.VERB);
    return TrackedTree.of(context, process.identity, List.of(process))
        .exclusively(
            Recovery.VERB,
            ProcessLock.Kind.MOVE,
            0,
            verb -> {
              if (verb.members().isEmpty()
                  || !process.key.equals(entry.key())
                  || !isThere()
                  || verb.members().get(0).readState() != ProcessState.RUNNING) {
                return found(RecoveryOutcome.IN_USE);
              }
              process.forget();
              return found(RecoveryOutcome.RUNNING);
            });
  }
}
