package dev.gpuprocess;

import dev.gpuprocess.Recovered.Outcome;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.error.NotCudaProcessException;
import dev.gpuprocess.image.AbandonedImage;
import dev.gpuprocess.image.LogDirectory;
import dev.gpuprocess.image.StagedImage;
import dev.gpuprocess.proc.ProcFs;
import dev.gpuprocess.proc.ProcStat;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.locks.LockSupport;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Mends what a dead controller left, one journal entry after the other. */
final class Recovery {

  private static final Logger LOG = LoggerFactory.getLogger(GpuProcess.class);

  private static final long POLL_NANOS = 5_000_000;

  private final GpuCheckpoints checkpoints;
  private final Journal journal;

  Recovery(GpuCheckpoints checkpoints, Journal journal) {
    this.checkpoints = checkpoints;
    this.journal = journal;
  }

  List<Recovered> run() {
    return journal.alone(
        () -> {
          journal.removeHalves();
          return journal.entries().stream().map(this::recover).toList();
        });
  }

  private Recovered recover(JournalEntry entry) {
    if (journal.isOurs(entry) || entry.controller().isAlive()) {
      return ofLiveController(entry);
    }
    if (!entry.isImageRestore()) {
      awaitUntraced(entry.target());
    }
    // Before the entry goes, which tells where they are.
    removeHalfImages(entry.image());
    Recovered recovered =
        entry.isImageRestore() ? ofImageRestore(entry) : ofProcess(entry, entry.target());
    if (entry.log() != null && LogDirectory.isOne(entry.log())) {
      new LogDirectory(entry.log()).delete();
    }
    LOG.info("recovered process {}: {}", recovered.process().pid(), recovered.outcome());
    return recovered;
  }

  /** What died meanwhile needs nobody any more, unless its image is being made. */
  private Recovered ofLiveController(JournalEntry entry) {
    if (entry.isImageRestore() || entry.image() != null || entry.target().isAlive()) {
      return new Recovered(entry.target(), Outcome.IN_USE, null);
    }
    journal.remove(entry.target());
    return new Recovered(entry.target(), Outcome.GONE, null);
  }

  private Recovered ofProcess(JournalEntry entry, ProcessIdentity process) {
    if (!process.isAlive()) {
      journal.remove(process);
      return new Recovered(process, Outcome.GONE, null);
    }
    try {
      return mend(entry, process);
    } catch (NoSuchProcessException | NotCudaProcessException e) {
      // One without CUDA state is a stranger that got the pid.
      journal.remove(process);
      return new Recovered(process, Outcome.GONE, null);
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

  private Recovered mend(JournalEntry entry, ProcessIdentity process) {
    GpuProcess found = checkpoints.inspect(process.pid());
    if (!found.identity().equals(process)) {
      journal.remove(process);
      return new Recovered(process, Outcome.GONE, null);
    }
    if (found instanceof LockedProcess locked) {
      RunningProcess running = locked.unlock();
      return new Recovered(running.identity(), Outcome.UNLOCKED, null);
    }
    if (found instanceof CheckpointedProcess suspended) {
      journal.write(process, "checkpointed", entry.held(), null, null);
      return new Recovered(process, Outcome.SUSPENDED, suspended);
    }
    journal.remove(process);
    return new Recovered(process, Outcome.RUNNING, null);
  }

  /** CRIU may have finished the restore without us, have given it up, or have died half way. */
  private Recovered ofImageRestore(JournalEntry entry) {
    ProcessIdentity expected = entry.target();
    Optional<ProcStat> found =
        ProcFs.stat(expected.pid())
            .filter(stat -> stat.startTicks() >= expected.startTicks() && !stat.isDead());
    if (found.isEmpty()) {
      journal.remove(expected);
      return new Recovered(expected, Outcome.GONE, null);
    }
    ProcessIdentity process = new ProcessIdentity(expected.pid(), found.get().startTicks());
    if (holdsLog(process, entry.log())) {
      end(process);
      journal.remove(expected);
      return new Recovered(process, Outcome.HALF_RESTORED_ENDED, null);
    }
    journal.write(process, "checkpointed", entry.held(), null, null);
    journal.remove(expected);
    awaitUntraced(process);
    return ofProcess(entry, process);
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
  private static void removeHalfImages(@Nullable Path image) {
    Path parent = image == null ? null : image.getParent();
    if (parent == null) {
      return;
    }
    try {
      StagedImage.abandonedIn(parent).forEach(AbandonedImage::remove);
    } catch (ImageException e) {
      // The process matters more; whoever dumps there next can remove them.
      LOG.warn("half images in {} stay: {}", parent, e.getMessage());
    }
  }
}
