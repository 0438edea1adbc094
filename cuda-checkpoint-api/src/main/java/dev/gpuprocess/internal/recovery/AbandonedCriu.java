package dev.gpuprocess.internal.recovery;

import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.linux.ProcessKey;
import dev.gpuprocess.internal.linux.Processes;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.internal.proc.ProcessUnreadableException;
import dev.gpuprocess.internal.proc.Signals;
import dev.gpuprocess.internal.proc.Unreadable;
import dev.gpuprocess.internal.state.Journal;
import dev.gpuprocess.internal.state.JournalEntry;
import dev.gpuprocess.internal.state.ProcessLock;
import dev.gpuprocess.internal.time.Polling;
import dev.gpuprocess.report.ProcessIdentity;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The CRIU of a dead controller, which may still hold the tree that it dumps. It lets the tree go
 * when it next sends to its controller. If the controller had stopped it, to find out whether it
 * may be killed, it must be continued first.
 */
final class AbandonedCriu {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  private final EngineContext context;
  private final Journal journal;
  private final List<JournalEntry> entries;
  private final List<ProcessIdentity> members;
  private final Optional<ProcessIdentity> root;

  /**
   * Finds the processes of the tree.
   *
   * @param entries the entries of its members, all of dead controllers
   */
  AbandonedCriu(
      EngineContext context, Journal journal, ProcessKey root, List<JournalEntry> entries) {
    this.context = context;
    this.journal = journal;
    this.entries = entries;
    this.members = entries.stream().flatMap(entry -> entry.find().process().stream()).toList();
    this.root = root.find().process();
  }

  /** Waits until it has let the tree go, at most as long as a driver call may last. */
  void awaitEnd() {
    boolean unused = Polling.until(context.timeouts().call(), () -> !isAtWork());
  }

  private boolean isAtWork() {
    List<ProcessIdentity> found = Unreadable.as(List.of(), this::find);
    if (found.stream().anyMatch(AbandonedCriu::isStopped) && isLeft()) {
      found.forEach(AbandonedCriu::continueStopped);
    }
    return !found.isEmpty()
        || members.stream()
            .filter(ProcessIdentity::isAlive)
            .flatMap(member -> ProcFs.eachTask(member.pid()))
            .anyMatch(ProcStat::isHeldByTracer);
  }

  /** Returns the CRIU that traces a process of the tree, after the commands that run it. */
  private List<ProcessIdentity> find() {
    return Stream.concat(root.stream(), members.stream())
        .filter(ProcessIdentity::isAlive)
        .flatMap(process -> ProcFs.tree(process.pid()).stream())
        .distinct()
        .flatMap(pid -> ProcFs.tracer(pid).stream().boxed())
        .distinct()
        .flatMap(AbandonedCriu::line)
        .toList();
  }

  /** Returns a process and its ancestors as long as they are, or run, a CRIU. */
  private static Stream<ProcessIdentity> line(int pid) {
    if (!ProcFs.isCriu(pid)) {
      return Stream.empty();
    }
    return Stream.concat(
        ProcFs.stat(pid).map(ProcStat::parent).stream().flatMap(AbandonedCriu::line),
        ProcessIdentity.of(pid).stream());
  }

  private static boolean isStopped(ProcessIdentity process) {
    return Unreadable.as(
        false, () -> Processes.stat(process).filter(ProcStat::isStopped).isPresent());
  }

  /** Returns whether no other controller has begun to work on the tree. */
  private boolean isLeft() {
    return entries.stream()
        .allMatch(
            entry ->
                journal.find(entry.key()).equals(Optional.of(entry))
                    && ProcessLock.holder(entry.key(), context.state()).isEmpty());
  }

  private static void continueStopped(ProcessIdentity process) {
    try {
      if (isStopped(process)) {
        LOG.info("process {} continues, which a dead controller had stopped", process.pid());
        boolean unused = Processes.signal(process, Signals.SIGCONT);
      }
    } catch (NativeCallException | ProcessUnreadableException e) {
      LOG.debug("process {} stays stopped", process.pid(), e);
    }
  }
}
