package dev.gpuprocess;

import dev.gpuprocess.Recovered.Outcome;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.error.NotCudaProcessException;
import dev.gpuprocess.error.OperationInProgressException;
import dev.gpuprocess.image.LogDirectory;
import dev.gpuprocess.image.StagedImage;
import dev.gpuprocess.proc.ProcFs;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.locks.LockSupport;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Mends what a dead controller left, one journal entry after the other. */
final class Recovery {

  private static final Logger LOG = LoggerFactory.getLogger(GpuProcess.class);

  private static final String VERB = "recover";
  private static final long POLL_NANOS = 5_000_000;

  private final GpuCheckpoints checkpoints;
  private final Journal journal;

  Recovery(GpuCheckpoints checkpoints, Journal journal) {
    this.checkpoints = checkpoints;
    this.journal = journal;
  }

  List<Recovered> run() {
    return journal.alone(
        checkpoints.timeouts().transfer(),
        () -> {
          journal.removeHalves();
          List<Recovered> all = new ArrayList<>();
          List<JournalEntry> found = journal.entries();
          found.stream()
              .filter(JournalEntry::isImageRestore)
              .forEach(entry -> recoverRestore(entry).ifPresent(all::add));
          journal.entries().stream()
              .filter(entry -> !entry.isImageRestore())
              .map(this::recover)
              .forEach(all::add);
          // Only now: a disk that hangs keeps no process from going on.
          tidyUp(found);
          return all;
        });
  }

  /** What dead controllers left on disks; one that hangs is left alone. */
  private void tidyUp(List<JournalEntry> found) {
    for (JournalEntry entry : found) {
      if (!isOfLiveController(entry)) {
        Optional.ofNullable(entry.image())
            .map(Path::getParent)
            .ifPresent(parent -> bounded(parent, () -> removeHalfImages(parent)));
        Optional.ofNullable(entry.log())
            .filter(LogDirectory::isOne)
            .ifPresent(log -> bounded(log, new LogDirectory(log)::delete));
      }
    }
    bounded(Path.of(System.getProperty("java.io.tmpdir")), LogDirectory::removeAbandoned);
  }

  private void bounded(Path place, Runnable work) {
    new DiskWork(VERB, 0, place, checkpoints.timeouts().call())
        .tidy("tidy up " + place, checkpoints.timeouts().call(), work);
  }

  private Recovered recover(JournalEntry entry) {
    if (isOfLiveController(entry)) {
      return ofLiveController(entry);
    }
    awaitUntraced(entry.target());
    return told(ofProcess(entry));
  }

  /** Empty when the process is back and has an entry of its own. */
  private Optional<Recovered> recoverRestore(JournalEntry entry) {
    return isOfLiveController(entry)
        ? Optional.of(new Recovered(entry.target(), Outcome.IN_USE, null))
        : ofImageRestore(entry).map(Recovery::told);
  }

  private static Recovered told(Recovered recovered) {
    LOG.info("recovered process {}: {}", recovered.process().pid(), recovered.outcome());
    return recovered;
  }

  private boolean isOfLiveController(JournalEntry entry) {
    return journal.isOurs(entry) || entry.controller().isAlive();
  }

  /** What died meanwhile needs nobody any more, unless its image is being made. */
  private Recovered ofLiveController(JournalEntry entry) {
    if (entry.isImageRestore() || entry.image() != null || entry.target().isAlive()) {
      return new Recovered(entry.target(), Outcome.IN_USE, null);
    }
    journal.remove(entry.target());
    return new Recovered(entry.target(), Outcome.GONE, null);
  }

  private Recovered ofProcess(JournalEntry entry) {
    ProcessIdentity process = entry.target();
    if (!process.isAlive()) {
      journal.remove(process);
      return new Recovered(process, Outcome.GONE, null);
    }
    try {
      return mend(entry);
    } catch (NoSuchProcessException | NotCudaProcessException e) {
      // One without CUDA state is a stranger that got the pid.
      journal.remove(process);
      return new Recovered(process, Outcome.GONE, null);
    } catch (OperationInProgressException e) {
      return new Recovered(process, Outcome.IN_USE, null);
    } catch (GpuCheckpointException e) {
      LOG.warn("process {} cannot be recovered now: {}", process.pid(), e.getMessage());
      return new Recovered(process, Outcome.UNREACHABLE, null);
    }
  }

  /** A CRIU whose client died lets the tree go by itself, at its next word to the client. */
  private void awaitUntraced(ProcessIdentity process) {
    long end = System.nanoTime() + checkpoints.timeouts().call().toNanos();
    while (process.stat().map(stat -> stat.state() == 't').orElse(false)
        && System.nanoTime() < end) {
      LockSupport.parkNanos(POLL_NANOS);
    }
  }

  /** All in one turn, so that no live controller can take the process over in between. */
  private Recovered mend(JournalEntry entry) {
    ProcessIdentity process = entry.target();
    Target target = Target.of(checkpoints, process.pid(), VERB);
    if (!target.identity.equals(process)) {
      journal.remove(process);
      return new Recovered(process, Outcome.GONE, null);
    }
    return target.exclusively(
        VERB,
        Turn.Kind.MOVE,
        0,
        verb ->
            journal.find(process).equals(Optional.of(entry))
                ? mend(entry, target, verb)
                : new Recovered(process, Outcome.IN_USE, null));
  }

  private Recovered mend(JournalEntry entry, Target target, Verb verb) {
    ProcessIdentity process = target.identity;
    return switch (verb.readState()) {
      case RUNNING -> {
        target.forget();
        yield new Recovered(process, Outcome.RUNNING, null);
      }
      case LOCKED -> {
        verb.unlock();
        target.forget();
        yield new Recovered(process, Outcome.UNLOCKED, null);
      }
      case CHECKPOINTED -> {
        journal.write(process, "checkpointed", entry.held(), null, null);
        StateObject self = StateObject.next(target, List.of());
        yield new Recovered(process, Outcome.SUSPENDED, new CheckpointedProcess(self));
      }
      case FAILED -> new Recovered(process, Outcome.FAILED, null);
      default -> new Recovered(process, Outcome.UNREACHABLE, null);
    };
  }

  /**
   * CRIU may have finished the restore without us, have given it up, or have died half way. What it
   * finished gets an entry of its own.
   */
  private Optional<Recovered> ofImageRestore(JournalEntry entry) {
    ProcessIdentity expected = entry.target();
    Optional<ProcessIdentity> found =
        ProcessIdentity.of(expected.pid())
            .filter(who -> who.startTicks() >= expected.startTicks() && who.isAlive());
    if (found.isEmpty()) {
      journal.remove(expected);
      return Optional.of(new Recovered(expected, Outcome.GONE, null));
    }
    ProcessIdentity process = found.get();
    try {
      Turn turn = Turn.take(process, VERB, Turn.Kind.MOVE, checkpoints.stateDirectory());
      try {
        return ofRestored(entry, process);
      } finally {
        turn.end();
      }
    } catch (OperationInProgressException e) {
      return Optional.of(new Recovered(process, Outcome.IN_USE, null));
    }
  }

  private Optional<Recovered> ofRestored(JournalEntry entry, ProcessIdentity process) {
    boolean half = holdsLog(process, entry.log());
    if (half) {
      end(process);
    } else if (journal.find(process).isEmpty()) {
      journal.write(
          new JournalEntry(
              process, entry.controller(), "checkpointed", entry.held(), null, entry.log()));
    }
    journal.remove(entry.target());
    return half
        ? Optional.of(new Recovered(process, Outcome.HALF_RESTORED_ENDED, null))
        : Optional.empty();
  }

  /** A task that CRIU let go has nothing of CRIU open; one that it built by half writes its log. */
  private static boolean holdsLog(ProcessIdentity process, @Nullable Path log) {
    return log != null
        && ProcFs.openFiles(process.pid()).stream()
            .anyMatch(file -> file.target().startsWith(log + "/"));
  }

  private static void end(ProcessIdentity process) {
    ProcessHandle.of(process.pid())
        .filter(handle -> process.isAlive())
        .ifPresent(ProcessHandle::destroyForcibly);
  }

  /** A half image of a dead maker lies beside the place it was meant for. */
  private static void removeHalfImages(Path parent) {
    try {
      StagedImage.removeAbandonedIn(parent);
    } catch (ImageException e) {
      // Whoever dumps there next removes them.
      LOG.warn("half images in {} stay: {}", parent, e.getMessage());
    }
  }
}
