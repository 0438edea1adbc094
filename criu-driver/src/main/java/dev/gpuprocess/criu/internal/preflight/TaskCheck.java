package dev.gpuprocess.criu.internal.preflight;

import dev.gpuprocess.doctor.Finding.Severity;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.internal.process.Processes;
import dev.gpuprocess.process.ProcessIdentity;
import java.util.Set;
import java.util.TreeSet;

/** What the tasks of the tree are up to: CRIU must trace each of them. */
final class TaskCheck {

  /** What the kernel says of a session that a pid namespace has no number for. */
  private static final String OUTSIDE = "0";

  private final FindingCollector troubles;
  private final ProcessIdentity root;

  TaskCheck(FindingCollector troubles, ProcessIdentity root) {
    this.troubles = troubles;
    this.root = root;
  }

  void lookAtRoot() {
    Processes.stat(root)
        .filter(stat -> !stat.leadsSession() && stat.session() != 0)
        .ifPresent(
            stat ->
                troubles.add(
                    Severity.OK,
                    FindingCollector.who(root.pid()),
                    "does not lead its session %s, so what is restored joins the session of whoever restores it"
                        .formatted(stat.session()),
                    ""));
  }

  void look(int pid) {
    lookAtSession(pid);
    if (pid == ProcessHandle.current().pid()) {
      troubles.add(
          Severity.PROBLEM,
          FindingCollector.who(pid),
          "is this JVM, which cannot be in the tree that it dumps",
          "dump from a process outside the tree");
    }
    lookAtFirstThread(pid);
    lookAtTracers(pid);
  }

  /**
   * CRIU cannot trace such a root, and says of such a child that it dumps no zombies with threads.
   */
  private void lookAtFirstThread(int pid) {
    ProcFs.stat(pid)
        .filter(ProcStat::firstThreadEnded)
        .ifPresent(
            stat ->
                troubles.problem(
                    new ResourceRef(pid, "thread", Integer.toString(pid)),
                    "its first thread",
                    "has ended while others go on, and CRIU cannot dump such a process",
                    "let the main thread of the program wait for the others"));
  }

  private void lookAtSession(int pid) {
    // The last is the number in the process's own pid namespace, and 0 when it has none there.
    String[] sessions = ProcFs.status(pid).getOrDefault("NSsid", "").split("\\s+");
    ProcFs.stat(pid)
        .filter(stat -> sessions[sessions.length - 1].equals(OUTSIDE) && !stat.isDead())
        .ifPresent(
            stat ->
                troubles.problem(
                    new ResourceRef(pid, "session", OUTSIDE),
                    "a session from outside",
                    "has its leader outside of the pid namespace of the process, so CRIU has no number for it",
                    "start the process in a session of its own, with setsid"));
  }

  /** A task has one tracer at most. */
  private void lookAtTracers(int pid) {
    Set<Integer> tracers = new TreeSet<>();
    for (int thread : ProcFs.threads(pid)) {
      tracers.add(Integer.valueOf(ProcFs.status(thread).getOrDefault("TracerPid", "0")));
    }
    tracers.remove(0);
    for (int tracer : tracers) {
      troubles.problem(
          new ResourceRef(pid, "tracer", Integer.toString(tracer)),
          FindingCollector.who(tracer),
          "traces it, and CRIU must trace it itself",
          "end the tracer, or wait until it has let go");
    }
  }
}
