package dev.gpuprocess.internal.recovery;

import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.linux.ProcessKey;
import dev.gpuprocess.internal.state.Journal;
import dev.gpuprocess.internal.state.JournalEntry;
import dev.gpuprocess.internal.state.ProcessLock;
import dev.gpuprocess.report.RecoveryOutcome;
import java.util.function.Supplier;

/** The recovery for one journal entry. */
abstract class EntryRecovery {

  final EngineContext context;
  final Journal journal;
  final JournalEntry entry;

  EntryRecovery(EngineContext context, Journal journal, JournalEntry entry) {
    this.context = context;
    this.journal = journal;
    this.entry = entry;
  }

  final RecoveredProcess found(RecoveryOutcome outcome) {
    return new RecoveredProcess(entry.process(), outcome, null);
  }

  /** Removes the entry of a process that has exited. */
  final RecoveredProcess gone() {
    journal.remove(entry.key());
    return found(RecoveryOutcome.GONE);
  }

  /**
   * Runs code under the lock of a process, so that no verb begins until it has ended.
   *
   * @throws dev.gpuprocess.error.OperationInProgressException when another verb works on it
   */
  final <T> T locked(ProcessKey process, int pid, Supplier<T> body) {
    ProcessLock lock =
        ProcessLock.take(
            process,
            pid,
            Recovery.VERB,
            ProcessLock.Kind.MOVE,
            context.state(),
            context.timeouts().call());
    try {
      return body.get();
    } finally {
      lock.release();
    }
  }
}
