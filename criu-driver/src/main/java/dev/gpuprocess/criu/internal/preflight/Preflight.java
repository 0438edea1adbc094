package dev.gpuprocess.criu.internal.preflight;

import dev.gpuprocess.internal.linux.FileSizeLimit;
import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.proc.Capabilities;
import dev.gpuprocess.internal.proc.Capabilities.Capability;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcessUnreadableException;
import dev.gpuprocess.internal.proc.ResourceLimits;
import dev.gpuprocess.internal.text.Bytes;
import dev.gpuprocess.internal.time.WorkLimit;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.report.Finding;
import dev.gpuprocess.report.Finding.Severity;
import dev.gpuprocess.report.ProcessIdentity;
import java.util.List;

/**
 * Examines a process tree for what CRIU would refuse to dump, or could not restore. Does not touch
 * the tree.
 */
public final class Preflight {

  private final FindingCollector findings = new FindingCollector();
  private final WorkLimit limit;
  private final TaskCheck tasks;
  private final NamespaceCheck namespaces;
  private final DescriptorCheck descriptors;
  private final MappingCheck mappings;
  private final List<Integer> tree;

  private Preflight(ProcessIdentity root, DumpOptions options, boolean ourChild) {
    limit = WorkLimit.scanning("dump", root.pid(), options.deadline());
    tree = ProcFs.tree(root.pid());
    RemovedFileCheck removed = new RemovedFileCheck(findings, options);
    tasks = new TaskCheck(findings, root, tree);
    namespaces = new NamespaceCheck(findings, options, root);
    descriptors = new DescriptorCheck(findings, limit, options, removed, ourChild, tree);
    mappings = new MappingCheck(findings, limit, removed, root);
  }

  /**
   * Examines a tree.
   *
   * @param root the root of the tree
   * @param options how it would be dumped; their deadline also limits this examination
   * @param ourChild whether CRIU is a child of this JVM, so that the privileges of this JVM are
   *     examined too
   * @return what would make the dump fail
   * @throws dev.gpuprocess.error.OperationTimedOutException if the deadline of the options passed
   */
  public static List<Finding> of(ProcessIdentity root, DumpOptions options, boolean ourChild) {
    if (!root.isAlive()) {
      return List.of();
    }
    Preflight preflight = new Preflight(root, options, ourChild);
    if (ourChild) {
      preflight.lookAtRights();
      preflight.lookAtFileSize();
      preflight.lookAtLimits();
    }
    return preflight.look();
  }

  /** Checks that a CRIU started by this JVM has the capabilities that it needs. */
  private void lookAtRights() {
    Capabilities ours = Capabilities.ours();
    if (!ours.handsOn(Capability.SYS_ADMIN) && !ours.handsOn(Capability.CHECKPOINT_RESTORE)) {
      findings.add(
          Severity.PROBLEM,
          "rights",
          "CRIU started from here has neither CAP_SYS_ADMIN nor CAP_CHECKPOINT_RESTORE, unless its"
              + " program file grants them",
          "run as root, or with one of these capabilities");
    }
  }

  /** CRIU writes the memory of a process into one file. */
  private void lookAtFileSize() {
    try {
      long largest = FileSizeLimit.ofChildren();
      for (int pid : largest == Long.MAX_VALUE ? List.<Integer>of() : tree) {
        if (ProcFs.anonymousBytes(pid) > largest) {
          findings.problem(
              new ResourceRef(pid, "memory", Bytes.text(ProcFs.anonymousBytes(pid))),
              "its memory",
              "is more than the %s that this JVM and CRIU may write into a file (RLIMIT_FSIZE)"
                  .formatted(Bytes.text(largest)),
              "raise the hard limit of the JVM (ulimit -f unlimited, LimitFSIZE=infinity of systemd)");
        }
      }
    } catch (NativeCallException e) {
      findings.add(Severity.WARNING, "limits", "cannot be read", String.valueOf(e.getMessage()));
    }
  }

  /** CRIU lowers the limits of the processes that it restores where it may not raise its own. */
  private void lookAtLimits() {
    if (Capabilities.ours().handsOn(Capability.SYS_RESOURCE)) {
      return;
    }
    int self = Math.toIntExact(ProcessHandle.current().pid());
    ResourceLimits.of(self).ifPresent(ours -> tree.forEach(pid -> lookAtLimits(pid, ours)));
  }

  private void lookAtLimits(int pid, ResourceLimits ours) {
    List<String> above = ResourceLimits.of(pid).map(limits -> limits.above(ours)).orElse(List.of());
    if (!above.isEmpty()) {
      findings.add(
          Severity.WARNING,
          FindingCollector.process(pid),
          "has higher hard limits than this JVM, and a restore from here would lower them (%s)"
              .formatted(String.join(", ", above)),
          "raise the hard limits of the JVM (ulimit -H, prlimit), or give it CAP_SYS_RESOURCE");
    }
  }

  private List<Finding> look() {
    tasks.lookAtRoot();
    for (int pid : tree) {
      limit.check();
      try {
        tasks.look(pid);
        namespaces.look(pid);
        descriptors.look(pid);
        mappings.look(pid);
      } catch (ProcessUnreadableException e) {
        findings.add(
            Severity.WARNING,
            "process " + pid,
            "cannot be inspected",
            String.valueOf(e.getMessage()));
      }
    }
    descriptors.finish();
    return findings.findings();
  }
}
