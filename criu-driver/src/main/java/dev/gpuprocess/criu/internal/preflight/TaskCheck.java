package dev.gpuprocess.criu.internal.preflight;

import dev.gpuprocess.error.UnsupportedResource.Kind;
import dev.gpuprocess.internal.linux.Processes;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.report.Finding.Severity;
import dev.gpuprocess.report.ProcessIdentity;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;

/** The state of the tree's tasks: CRIU must trace each of them. */
final class TaskCheck {

  /** What the kernel shows for a session that has no pid in a pid namespace. */
  private static final String OUTSIDE = "0";

  private static final String MEMFD = "/memfd:";

  private static final String GROUPS_FIELD = "Groups:\t";

  /** The buffer of CRIU, a page. */
  private static final int LONGEST_LINE = 4096;

  private final FindingCollector findings;
  private final ProcessIdentity root;
  private final List<Integer> tree;
  private final Optional<ProcStat> ofRoot;

  TaskCheck(FindingCollector findings, ProcessIdentity root, List<Integer> tree) {
    this.findings = findings;
    this.root = root;
    this.tree = tree;
    this.ofRoot = Processes.stat(root);
  }

  void lookAtRoot() {
    ofRoot
        .filter(stat -> !stat.leadsSession() && stat.session() != 0)
        .ifPresent(
            stat ->
                findings.add(
                    Severity.OK,
                    FindingCollector.process(root.pid()),
                    "is not the leader of its session %s, so the restored process joins the session of the process that restores it"
                        .formatted(stat.session()),
                    ""));
  }

  void look(int pid) {
    lookAtSession(pid);
    lookAtSessionLeader(pid);
    if (pid == ProcessHandle.current().pid()) {
      findings.add(
          Severity.PROBLEM,
          FindingCollector.process(pid),
          "is this JVM, which cannot be in the tree that it dumps",
          "dump from a process outside the tree");
    }
    lookAtFirstThread(pid);
    lookAtStop(pid);
    lookAtProgram(pid);
    lookAtGroups(pid);
    lookAtTracers(pid);
  }

  /** CRIU cannot trace such a root, and refuses such a child as a zombie with threads. */
  private void lookAtFirstThread(int pid) {
    ProcFs.stat(pid)
        .filter(ProcStat::firstThreadEnded)
        .ifPresent(
            stat ->
                findings.problem(
                    new ResourceRef(pid, "thread", Integer.toString(pid)),
                    "its first thread",
                    "has ended while others go on, and CRIU cannot dump such a process",
                    "let the main thread of the program wait for the others"));
  }

  /**
   * The kernel sends SIGHUP and SIGCONT to a process group that becomes orphaned while a process in
   * it is stopped. The group of the root becomes orphaned when CRIU exits after a restore, unless
   * the root leads its session: CRIU is in that session then, and is the parent of the root.
   */
  private void lookAtStop(int pid) {
    ProcFs.stat(pid)
        .filter(stat -> stat.isStopped() && !stat.isHeldByTracer())
        .filter(
            stat ->
                ofRoot
                    .filter(first -> !first.leadsSession() && first.group() == stat.group())
                    .isPresent())
        .ifPresent(
            stat ->
                findings.problem(
                    new ResourceRef(pid, "process group", Integer.toString(stat.group())),
                    "a stopped process",
                    "is in the process group of a root that does not lead its session, and the"
                        + " kernel would send SIGHUP to that group after a restore",
                    "continue the stopped process (kill -CONT %s), or start the tree in a session of its own, with setsid"
                        .formatted(pid)));
  }

  /** CRIU stores the name of the program's file, and a memfd has none that it can open. */
  private void lookAtProgram(int pid) {
    ProcFs.program(pid)
        .filter(program -> program.startsWith(MEMFD))
        .ifPresent(
            program ->
                findings.problem(
                    new ResourceRef(pid, "program", program),
                    program,
                    "is memory (memfd_create) that was executed, and CRIU cannot restore such a process",
                    "start the program from a file on a disk or a tmpfs"));
  }

  /**
   * CRIU restores a process whose session has no leader as the child of a helper that leads the
   * session and exits. The first process of the pid namespace adopts the child then, which is the
   * right parent only if that process is the root.
   */
  private void lookAtSessionLeader(int pid) {
    if (pid == root.pid() || isFirstOfPidNamespace(root.pid())) {
      return;
    }
    int ofTree = ofRoot.map(ProcStat::session).orElse(0);
    ProcFs.stat(pid)
        .filter(stat -> !stat.isDead() && stat.session() != 0 && stat.session() != ofTree)
        .filter(stat -> !tree.contains(stat.session()))
        .ifPresent(
            stat ->
                findings.problem(
                    new ResourceRef(pid, "session", Integer.toString(stat.session())),
                    "session " + stat.session(),
                    "has no leader in the tree, and CRIU would restore the process with another parent",
                    "let the leader of the session live as long as the process, or start the tree in"
                        + " a pid namespace of its own (unshare --pid --fork)"));
  }

  private static boolean isFirstOfPidNamespace(long pid) {
    String[] pids = ProcFs.status(pid).getOrDefault("NSpid", "").split("\\s+");
    return pids.length > 1 && pids[pids.length - 1].equals("1");
  }

  /** CRIU reads {@code /proc/PID/status} through a buffer that must have each line in whole. */
  private void lookAtGroups(int pid) {
    String groups = ProcFs.status(pid).getOrDefault("Groups", "");
    if (GROUPS_FIELD.length() + groups.length() + 2 > LONGEST_LINE) {
      findings.problem(
          new ResourceRef(pid, "groups", Integer.toString(groups.split(" ").length)),
          "its supplementary groups",
          "are more than CRIU can read, about 680 of five digits",
          "start the process in fewer groups, such as with setpriv --groups");
    }
  }

  private void lookAtSession(int pid) {
    // The last number is the pid in the process's own pid namespace, or 0.
    String[] sessions = ProcFs.status(pid).getOrDefault("NSsid", "").split("\\s+");
    ProcFs.stat(pid)
        .filter(stat -> sessions[sessions.length - 1].equals(OUTSIDE) && !stat.isDead())
        .ifPresent(
            stat ->
                findings.problem(
                    Kind.SESSION,
                    new ResourceRef(pid, "session", OUTSIDE),
                    "a session from outside",
                    "has its leader outside of the pid namespace of the process, so CRIU has no pid for it",
                    "start the process in a session of its own, with setsid"));
  }

  /** Each task has at most one tracer. */
  private void lookAtTracers(int pid) {
    Set<Integer> tracers = new TreeSet<>();
    for (int thread : ProcFs.threads(pid)) {
      tracers.add(Integer.valueOf(ProcFs.status(thread).getOrDefault("TracerPid", "0")));
    }
    tracers.remove(0);
    for (int tracer : tracers) {
      findings.problem(
          new ResourceRef(pid, "tracer", Integer.toString(tracer)),
          FindingCollector.process(tracer),
          "traces it, and CRIU must trace it itself",
          "end the tracer, or wait until it has detached");
    }
  }
}
