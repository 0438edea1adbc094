package dev.gpuprocess.criu.internal.restore;

import dev.gpuprocess.criu.internal.process.CriuCall;
import dev.gpuprocess.criu.internal.process.CriuCommand;
import dev.gpuprocess.criu.internal.process.CriuKill;
import dev.gpuprocess.criu.internal.tree.FreePids;
import dev.gpuprocess.internal.linux.ProcessTree;
import dev.gpuprocess.internal.proc.OpenFile;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.internal.proc.ProcessUnreadableException;
import dev.gpuprocess.internal.time.Deadline;
import dev.gpuprocess.internal.time.Uninterrupted;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Kills the processes that a failed restore leaves. Killing CRIU alone is not enough: a
 * half-restored task stays under init with the target's pid, and may write to its log until the
 * disk is full.
 *
 * <p>A task is ours if it was seen below our CRIU, or if it has the wanted pid, is younger than our
 * CRIU and holds our log open.
 */
final class PartialRestoreCleanup implements CriuCall.BeforeKill {

  private static final Logger LOG = LoggerFactory.getLogger(PartialRestoreCleanup.class);
  private static final Duration LIMIT = Duration.ofSeconds(5);
  private static final long PAUSE_NANOS = 500_000;

  private final CriuCommand command;
  private final int pid;
  private final Path log;
  private final RestoreStages stages;
  private final Set<ProcessIdentity> ours = new LinkedHashSet<>();
  private boolean isComplete = true;

  /**
   * Creates the cleanup of a restore that has not begun.
   *
   * @param command the command that starts CRIU, and can kill processes of CRIU's user
   * @param pid the wanted pid, free now; 0 if any will do, as for a tree with a pid namespace of
   *     its own
   */
  PartialRestoreCleanup(CriuCommand command, int pid, Path log, RestoreStages stages) {
    this.command = command;
    this.pid = pid;
    this.log = log;
    this.stages = stages;
  }

  @Override
  public void aboutToKill(int criu) {
    if (stages.resumed()) {
      return;
    }
    try {
      addDescendants(criu);
    } catch (ProcessUnreadableException e) {
      LOG.warn("what CRIU {} has started is not known, and may be left behind", criu, e);
      isComplete = false;
    }
  }

  /**
   * Kills the processes that are left after CRIU is gone, unless the tree was resumed.
   *
   * @return false if a process is left that could not be killed or may be of others, or what CRIU
   *     had started could not be determined
   */
  boolean end() {
    if (stages.resumed()) {
      return true;
    }
    ProcessIdentity.of(pid).filter(this::holdsOurLog).ifPresent(ours::add);
    ProcessIdentity root = stages.root();
    if (root != null) {
      ours.add(root);
    }
    // In the middle of its restore the root starts its children one after the other.
    ours.addAll(ProcessTree.kill(ours));
    Set<ProcessIdentity> signalled = new LinkedHashSet<>();
    Deadline deadline = Deadline.after(LIMIT);
    while (true) {
      // Descendants of processes that only root may kill. Children of a killed parent move to init.
      for (ProcessIdentity process : Set.copyOf(ours)) {
        if (process.isAlive()) {
          addDescendants(process.pid());
        }
      }
      List<ProcessIdentity> living = ours.stream().filter(ProcessIdentity::isAlive).toList();
      if (!living.isEmpty() && !signalled.containsAll(living)) {
        LOG.debug("ending half-restored processes {}", living);
        if (CriuKill.end(command, living)) {
          signalled.addAll(living);
        }
      }
      Optional<ProcStat> left = ProcFs.stat(pid).filter(stat -> !stat.isDead());
      if (living.isEmpty() && left.isEmpty()) {
        return isComplete;
      }
      // A task that CRIU has killed has closed the log by which it would be recognised.
      boolean goes = !living.isEmpty() || ProcFs.isEnding(pid);
      if (!goes || deadline.passed()) {
        return false;
      }
      Uninterrupted.pause(PAUSE_NANOS);
    }
  }

  /** Reaps the processes that are children of this JVM. */
  void reap() {
    ours.forEach(FreePids::reap);
  }

  private void addDescendants(int parent) {
    for (int descendant : ProcFs.descendants(parent)) {
      ProcessIdentity.of(descendant).ifPresent(ours::add);
    }
  }

  private boolean holdsOurLog(ProcessIdentity process) {
    for (OpenFile file : ProcFs.visibleFiles(process.pid())) {
      Path descriptor = ProcFs.file(process.pid(), "fd", Integer.toString(file.number()));
      try {
        if (file.target().startsWith("/") && Files.isSameFile(descriptor, log)) {
          return true;
        }
      } catch (IOException closedMeanwhile) {
        LOG.debug("{} is gone", descriptor);
      }
    }
    return false;
  }
}
