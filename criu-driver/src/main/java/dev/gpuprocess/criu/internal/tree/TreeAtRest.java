package dev.gpuprocess.criu.internal.tree;

import dev.gpuprocess.error.CriuFailure;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.ProcessStoppedException;
import dev.gpuprocess.error.UnsupportedResource;
import dev.gpuprocess.error.UnsupportedResourceException;
import dev.gpuprocess.internal.proc.Freezer;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.internal.proc.ScanLimit;
import dev.gpuprocess.options.DumpOptions;
import java.util.List;

/**
 * Looks for the processes that CRIU would not get hold of, before it touches the tree: for a frozen
 * one it waits until it is killed, and what it has begun then ends the tree when it is thawed; one
 * whose first thread has ended it cannot trace.
 */
public final class TreeAtRest {

  private final String subject;
  private final int root;
  private final DumpOptions options;

  public TreeAtRest(String subject, int root, DumpOptions options) {
    this.subject = subject;
    this.root = root;
    this.options = options;
  }

  /**
   * Throws when there is one.
   *
   * @param descendants all of the tree but its root
   */
  public void require(List<Integer> descendants) {
    ScanLimit limit = ScanLimit.of("dump", root, options.deadline());
    // A group that CRIU is told to freeze it also knows how to thaw.
    boolean mayBeFrozen = options.freezeCgroup().isPresent();
    Freezer freezer = Freezer.look();
    requireFirstThread(root);
    requireThawed(freezer, root, mayBeFrozen);
    for (int pid : descendants) {
      limit.check();
      requireFirstThread(pid);
      requireThawed(freezer, pid, mayBeFrozen);
    }
  }

  private void requireThawed(Freezer freezer, int pid, boolean mayBeFrozen) {
    if (!mayBeFrozen && freezer.of(pid) == Freezer.State.FROZEN) {
      throw new ProcessStoppedException(
          "%s did not begin: %s is in a frozen cgroup, and CRIU would wait for it: thaw it and try again"
              .formatted(subject, ProcessDescriptions.process(pid)),
          Failure.of("dump", root));
    }
  }

  private void requireFirstThread(int pid) {
    if (ProcFs.stat(pid).filter(ProcStat::firstThreadEnded).isPresent()) {
      String thread = "thread " + pid;
      throw new UnsupportedResourceException(
          "%s did not begin: the first thread of %s has ended while others go on, and CRIU cannot dump such a process: let the main thread of the program wait for the others"
              .formatted(subject, ProcessDescriptions.process(pid)),
          Failure.of("dump", root),
          CriuFailure.NOT_STARTED,
          List.of(new UnsupportedResource(pid, thread, "its first thread", null)),
          null);
    }
  }
}
