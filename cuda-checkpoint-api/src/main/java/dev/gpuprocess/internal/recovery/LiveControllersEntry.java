package dev.gpuprocess.internal.recovery;

import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.engine.DriverOperation;
import dev.gpuprocess.internal.engine.TrackedProcess;
import dev.gpuprocess.internal.journal.Journal;
import dev.gpuprocess.internal.journal.JournalEntry;
import dev.gpuprocess.internal.lock.Generation;
import dev.gpuprocess.internal.lock.ProcessLock;
import dev.gpuprocess.process.ProcessIdentity;
import dev.gpuprocess.progress.RecoveryOutcome;
import java.util.Optional;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * An entry whose controller lives. A verb of it is under way or will be, or the entry is left over:
 * a controller that could not see what its verb came to, as for want of descriptors, leaves the
 * entry. A process that runs while no verb is at it has nothing in the journal, nor has one that is
 * gone.
 */
final class LiveControllersEntry {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  private static final String VERB = "recover";

  private final EngineContext context;
  private final Journal journal;
  private final JournalEntry entry;

  LiveControllersEntry(EngineContext context, Journal journal, JournalEntry entry) {
    this.context = context;
    this.journal = journal;
    this.entry = entry;
  }

  /** Removes it if it is left over. The process is not touched. */
  RecoveredProcess run() {
    try {
      return told(isLeftOver() ? removed() : RecoveryOutcome.IN_USE);
    } catch (GpuCheckpointException e) {
      LOG.debug("whether the entry of process {} is left over is not known", entry.pid(), e);
      return told(RecoveryOutcome.IN_USE);
    }
  }

  private RecoveredProcess told(RecoveryOutcome outcome) {
    return new RecoveredProcess(entry.target(), outcome, null);
  }

  /** Looked at without a turn, which would be in the way of the controller's next verb. */
  private boolean isLeftOver() {
    if (isInTurn()) {
      return false;
    }
    Optional<Generation> move = ProcessLock.lastMove(entry.key(), context.state());
    return isThere()
        && isSettled()
        && !isInTurn()
        && ProcessLock.lastMove(entry.key(), context.state()).equals(move);
  }

  private boolean isInTurn() {
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

  /** In a turn, so that nobody begins a verb meanwhile. */
  private RecoveryOutcome removed() {
    return entry
        .find()
        .process()
        .filter(ProcessIdentity::isAlive)
        .map(found -> removedOfRunning(found.pid()))
        .orElseGet(this::removedOfGone);
  }

  private RecoveryOutcome removedOfGone() {
    ProcessLock turn =
        ProcessLock.take(
            entry.key(),
            entry.pid(),
            VERB,
            ProcessLock.Kind.MOVE,
            context.state(),
            context.timeouts().call());
    try {
      if (!isThere() || !entry.find().isGone()) {
        return RecoveryOutcome.IN_USE;
      }
      journal.remove(entry.key());
      return RecoveryOutcome.GONE;
    } finally {
      turn.release();
    }
  }

  private RecoveryOutcome removedOfRunning(int pid) {
    TrackedProcess target = TrackedProcess.of(context, pid, VERB);
    return target.exclusively(
        VERB,
        ProcessLock.Kind.MOVE,
        0,
        verb -> {
          if (!target.key.equals(entry.key())
              || !isThere()
              || verb.readState() != ProcessState.RUNNING) {
            return RecoveryOutcome.IN_USE;
          }
          target.forget();
          return RecoveryOutcome.RUNNING;
        });
  }
}
