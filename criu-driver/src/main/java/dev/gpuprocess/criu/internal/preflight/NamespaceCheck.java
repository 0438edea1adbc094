package dev.gpuprocess.criu.internal.preflight;

import dev.gpuprocess.internal.proc.Namespaces;
import dev.gpuprocess.internal.proc.Namespaces.Kind;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.options.CriuSwitch;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.report.ProcessIdentity;
import java.util.EnumSet;
import java.util.Optional;
import java.util.Set;

/**
 * The namespaces of the tree. CRIU dumps a mount or network namespace of a child, and a user
 * namespace of the root, and cannot restore them; it refuses the other namespaces of children.
 */
final class NamespaceCheck {

  /** CRIU restores these for children of a root that has one of its own. */
  private static final Set<Kind> RESTORED_FOR_CHILDREN = EnumSet.of(Kind.MOUNT, Kind.NETWORK);

  /** A thread can leave these namespaces of its process. */
  private static final Set<Kind> OF_THREADS =
      EnumSet.of(Kind.CGROUP, Kind.IPC, Kind.MOUNT, Kind.NETWORK, Kind.UTS);

  private static final Set<Kind> OF_CHILDREN =
      EnumSet.of(Kind.PID_OF_CHILDREN, Kind.TIME_OF_CHILDREN);

  private final FindingCollector findings;
  private final DumpOptions options;
  private final ProcessIdentity root;
  private final Namespaces ours = Namespaces.ours();
  private final Namespaces ofRoot;

  NamespaceCheck(FindingCollector findings, DumpOptions options, ProcessIdentity root) {
    this.findings = findings;
    this.options = options;
    this.root = root;
    this.ofRoot = Namespaces.of(root.pid());
  }

  void look(int pid) {
    Namespaces own = pid == root.pid() ? ofRoot : Namespaces.of(pid);
    if (pid == root.pid() && ofRoot.differs(Kind.USER, ours) && !isContainer()) {
      refuse(
          pid,
          Kind.USER,
          own,
          "is not the one of this JVM, and CRIU cannot restore a process in a user namespace of its own",
          "start the process without one (unshare --user, a rootless container), or suspend it and do not dump it");
    }
    for (Kind kind : own.differences(ofRoot)) {
      if (!OF_CHILDREN.contains(kind) && !isRestored(kind) && !isExternal(kind, own)) {
        refuse(
            pid,
            kind,
            own,
            "is not that of the root of the tree, %s, and CRIU cannot restore both"
                .formatted(FindingCollector.process(root.pid())),
            "start the whole tree in one %s namespace, or dump process %s as the root of a tree of its own"
                .formatted(kind.word(), pid));
      }
    }
    lookAtChildrenToCome(pid, own, Kind.PID, Kind.PID_OF_CHILDREN);
    lookAtChildrenToCome(pid, own, Kind.TIME, Kind.TIME_OF_CHILDREN);
    lookAtThreads(pid, own);
    lookAtCgroup(pid, own);
  }

  /**
   * CRIU writes no cgroup for the processes that are in its own cgroup, and cannot restore such a
   * process below a root that has a cgroup namespace.
   */
  private void lookAtCgroup(int pid, Namespaces own) {
    if (pid == root.pid()
        || !ofRoot.differs(Kind.CGROUP, ours)
        || own.differs(Kind.CGROUP, ofRoot)
        || ProcFs.stat(pid).filter(stat -> !stat.isDead()).isEmpty()) {
      return;
    }
    Optional<String> cgroup = ProcFs.read(pid, "cgroup");
    if (cgroup.isPresent() && cgroup.equals(ProcFs.read(ProcessHandle.current().pid(), "cgroup"))) {
      refuse(
          pid,
          Kind.CGROUP,
          own,
          "begins at the cgroup of this JVM, and CRIU cannot restore the process there below its parent",
          "start the tree in a cgroup of its own, or without a cgroup namespace of its own");
    }
  }

  /** CRIU restores a container with a user namespace, if it gets its root directory. */
  private boolean isContainer() {
    return options.criu().find(CriuSwitch.ROOT).isPresent()
        && ofRoot.differs(Kind.MOUNT, ours)
        && ofRoot.differs(Kind.PID, ours);
  }

  private boolean isRestored(Kind kind) {
    return RESTORED_FOR_CHILDREN.contains(kind) && ofRoot.differs(kind, ours);
  }

  private boolean isExternal(Kind kind, Namespaces own) {
    String key = own.get(kind).orElse("").replace(":", "");
    return options.criu().get(CriuSwitch.EXTERNAL).stream()
        .anyMatch(each -> each.text().startsWith(key));
  }

  private void lookAtChildrenToCome(int pid, Namespaces own, Kind kind, Kind ofChildren) {
    if (own.differWithin(kind, ofChildren)) {
      refuse(
          pid,
          ofChildren,
          own,
          "is that of the children that it will start, and CRIU does not restore it",
          "start the process without it, or dump such a child as the root of a tree of its own");
    }
  }

  private void lookAtThreads(int pid, Namespaces own) {
    for (int thread : ProcFs.threads(pid)) {
      if (thread == pid) {
        continue;
      }
      Namespaces ofThread = Namespaces.of(pid, thread);
      for (Kind kind : OF_THREADS) {
        if (ofThread.differs(kind, own)) {
          findings.problem(
              new ResourceRef(pid, "thread", Integer.toString(thread)),
              "its %s namespace %s".formatted(kind.word(), ofThread.get(kind).orElse("")),
              "is not that of the process, and CRIU restores the thread in that of the process",
              "let the thread return to it (setns), or end");
        }
      }
    }
  }

  private void refuse(int pid, Kind kind, Namespaces own, String why, String cure) {
    findings.problem(
        new ResourceRef(pid, "namespace", kind.link()),
        "its %s namespace %s".formatted(kind.word(), own.get(kind).orElse("")),
        why,
        cure);
  }
}
