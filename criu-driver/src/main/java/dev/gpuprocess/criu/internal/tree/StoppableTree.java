package dev.gpuprocess.criu.internal.tree;

import dev.gpuprocess.error.CriuException;
import dev.gpuprocess.error.CriuFailure;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.FixAndRetryException;
import dev.gpuprocess.error.UnsupportedResource;
import dev.gpuprocess.error.UnsupportedResource.Kind;
import dev.gpuprocess.internal.proc.Freezer;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.internal.time.WorkLimit;
import dev.gpuprocess.options.CriuSwitch;
import dev.gpuprocess.options.DumpOptions;
import java.util.List;

/**
 * Refuses trees with processes that CRIU cannot stop, before CRIU touches the tree. CRIU would wait
 * for a frozen process until CRIU is killed, and its injected code kills the tree when it is
 * thawed. CRIU cannot trace a process whose first thread has ended.
 */
public final class StoppableTree {

  private final String subject;
  private final int root;
  private final DumpOptions options;

  public StoppableTree(String subject, int root, DumpOptions options) {
    this.subject = subject;
    this.root = root;
    this.options = options;
  }

  /**
   * Throws if there is one.
   *
   * @param descendants the pids of the tree without its root
   */
  public void require(List<Integer> descendants) {
    WorkLimit limit = WorkLimit.scanning("dump", root, options.deadline());
    // CRIU can thaw the cgroup of the option.
    boolean mayBeFrozen = options.criu().isSet(CriuSwitch.FREEZE_CGROUP);
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
      throw new FixAndRetryException(
          FixAndRetryException.Reason.PROCESS_STOPPED,
          "%s did not begin: %s is in a frozen cgroup, and CRIU would wait for it: thaw it and try again"
              .formatted(subject, ProcessDescriptions.process(pid)),
          Failure.of("dump", root));
    }
  }

  private void requireFirstThread(int pid) {
    if (ProcFs.stat(pid).filter(ProcStat::firstThreadEnded).isPresent()) {
      String thread = "thread " + pid;
      throw CriuException.unsupportedResource(
          "%s did not begin: the first thread of %s has ended while others go on, and CRIU cannot dump such a process: let the main thread of the program wait for the others"
              .formatted(subject, ProcessDescriptions.process(pid)),
          Failure.of("dump", root),
          CriuFailure.NOT_STARTED,
          List.of(new UnsupportedResource(Kind.OTHER, pid, thread, "its first thread", null)),
          null);
    }
  }
}
