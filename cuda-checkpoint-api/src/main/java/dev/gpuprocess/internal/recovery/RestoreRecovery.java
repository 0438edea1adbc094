package dev.gpuprocess.internal.recovery;

import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.error.NotCudaProcessException;
import dev.gpuprocess.error.OperationInProgressException;
import dev.gpuprocess.internal.call.BoundedCall;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.engine.DriverOperation;
import dev.gpuprocess.internal.engine.ReachabilityCheck;
import dev.gpuprocess.internal.engine.TrackedProcess;
import dev.gpuprocess.internal.journal.Journal;
import dev.gpuprocess.internal.journal.JournalEntry;
import dev.gpuprocess.internal.lock.ProcessLock;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.process.ProcessKey;
import dev.gpuprocess.internal.process.ProcessSearch;
import dev.gpuprocess.internal.store.ImageDirectory;
import dev.gpuprocess.internal.store.LogDirectory;
import dev.gpuprocess.process.ProcessIdentity;
import dev.gpuprocess.progress.RecoveryOutcome;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeoutException;
import java.util.function.Supplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Finds out what became of a restore whose controller died. CRIU may have finished it, given it up,
 * or died half way; and by now the pid may belong to a stranger, who must not be touched.
 */
final class RestoreRecovery {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  private static final String VERB = "recover";

  private final EngineContext context;
  private final Journal journal;
  private final JournalEntry entry;

  RestoreRecovery(EngineContext context, Journal journal, JournalEntry entry) {
    this.context = context;
    this.journal = journal;
    this.entry = entry;
  }

  /** Empty when CRIU finished the restore; the process has an entry of its own then. */
  Optional<RecoveredProcess> run() {
    ProcessSearch search = entry.find();
    if (search.isGone()) {
      return gone();
    }
    if (search.process().isEmpty()) {
      return Optional.of(new RecoveredProcess(entry.target(), RecoveryOutcome.UNREACHABLE, null));
    }
    ProcessIdentity process = search.process().get();
    ProcessKey key = ProcessKey.of(process);
    return locked(process, key, () -> of(process, key));
  }

  /**
   * The same where the controller lives. It holds the lock of the pid while it restores; when it
   * does not, it could not see how its restore ended, and left the entry for that.
   */
  Optional<RecoveredProcess> runBesideController() {
    return locked(
        entry.target(),
        entry.key(),
        () -> {
          ProcessSearch search = entry.find();
          if (search.isGone()) {
            return gone();
          }
          return search.process().isEmpty()
              ? Optional.of(new RecoveredProcess(entry.target(), RecoveryOutcome.UNREACHABLE, null))
              : of(search.process().get(), ProcessKey.of(search.process().get()));
        });
  }

  private Optional<RecoveredProcess> locked(
      ProcessIdentity process, ProcessKey key, Supplier<Optional<RecoveredProcess>> body) {
    try {
      ProcessLock lock =
          ProcessLock.take(
              key,
              process.pid(),
              VERB,
              ProcessLock.Kind.MOVE,
              context.state(),
              context.timeouts().call());
      try {
        return body.get();
      } finally {
        lock.release();
      }
    } catch (OperationInProgressException e) {
      return Optional.of(new RecoveredProcess(process, RecoveryOutcome.IN_USE, null));
    } catch (NoSuchProcessException | NotCudaProcessException stranger) {
      return gone();
    } catch (GpuCheckpointException e) {
      LOG.warn("process {} cannot be recovered now: {}", process.pid(), e.getMessage());
      return Optional.of(new RecoveredProcess(process, RecoveryOutcome.UNREACHABLE, null));
    }
  }

  private Optional<RecoveredProcess> gone() {
    journal.remove(entry.key());
    return Optional.of(new RecoveredProcess(entry.target(), RecoveryOutcome.GONE, null));
  }

  private Optional<RecoveredProcess> of(ProcessIdentity process, ProcessKey key) {
    if (isHalfRestored(process)) {
      ProcessHandle.of(process.pid())
          .filter(handle -> process.isAlive())
          .ifPresent(ProcessHandle::destroyForcibly);
      journal.remove(entry.key());
      return Optional.of(new RecoveredProcess(process, RecoveryOutcome.HALF_RESTORED_ENDED, null));
    }
    if (journal.ownEntry(key).isEmpty()) {
      if (!isRestored(process)) {
        return gone();
      }
      journal.write(
          new JournalEntry(
              entry.boot(),
              key,
              process.pid(),
              entry.controller(),
              "checkpointed",
              entry.held(),
              null,
              entry.log()));
    }
    journal.removeRestore(entry.key());
    return Optional.empty();
  }

  /**
   * A half restored task still has CRIU's log open, which lies in a directory that no other user
   * can enter.
   */
  private boolean isHalfRestored(ProcessIdentity process) {
    return entry.log() != null && new LogDirectory(entry.log()).isHeldBy(process);
  }

  /**
   * A restored process is checkpointed until a controller moves it, which journals that. In any
   * other state it is a stranger.
   */
  private boolean isRestored(ProcessIdentity process) {
    TrackedProcess target = TrackedProcess.of(context, process.pid(), VERB);
    ReachabilityCheck.require(target, VERB);
    return target.identity.equals(process)
        && new DriverOperation(target, VERB, null).readState() == ProcessState.CHECKPOINTED
        && isOfImage(process);
  }

  /** An image that cannot be read does not speak against it. */
  private boolean isOfImage(ProcessIdentity process) {
    Path image = entry.image();
    if (image == null) {
      return true;
    }
    try {
      List<String> dumped =
          BoundedCall.run(
              image,
              "read " + image,
              context.timeouts().call(),
              () -> ImageDirectory.open(image, context.imageKey()).manifest().commandLine(),
              (late, failed) -> LOG.info("{} could be read after all", image));
      return dumped.equals(ProcFs.commandLine(process.pid()));
    } catch (ImageException | TimeoutException e) {
      LOG.warn("{} cannot be read, so process {} counts as restored from it", image, process, e);
      return true;
    }
  }
}
