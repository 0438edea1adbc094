package dev.gpuprocess.criu.internal.preflight;

import dev.gpuprocess.error.UnsupportedResource.Kind;
import dev.gpuprocess.internal.linux.FileSystemStatus;
import dev.gpuprocess.internal.proc.FileNode;
import dev.gpuprocess.internal.proc.Namespaces;
import dev.gpuprocess.internal.proc.OpenFile;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.SocketTables;
import dev.gpuprocess.internal.time.WorkLimit;
import dev.gpuprocess.options.DumpOptions;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;

/** The open files of the tree. */
final class DescriptorCheck {

  private static final long MQUEUE_MAGIC = 0x19800202;

  private static final String ANONYMOUS = "anon_inode:";

  /** The anonymous inodes that CRIU dumps. */
  private static final Set<String> KNOWN_ANONYMOUS =
      Set.of(
          "eventfd", "eventpoll", "inotify", "fanotify", "signalfd", "timerfd", "pidfd", "bpf-map");

  /** Linux 6.5 and later. */
  private static final Pattern SEMAPHORE = Pattern.compile("(?m)^eventfd-semaphore:\\s*(1)$");

  /** The name of what {@code memfd_secret(2)} creates. */
  private static final String SECRET = "/secretmem (deleted)";

  private static final Pattern OF_A_PROCESS = Pattern.compile("/proc/[0-9]+/.*");

  private final FindingCollector findings;

  /** Whether the processes have other pids after a restore in the /proc that they see. */
  private final boolean pidsChange;

  /** Whether a file system, by its device, holds message queues. */
  private final Map<Long, Boolean> queues = new HashMap<>();

  private final WorkLimit limit;
  private final RemovedFileCheck removed;
  private final MountCheck mounts;
  private final LockCheck locks;
  private final SocketCheck sockets;
  private final PipeCheck pipes;
  private final TerminalCheck terminals;

  /** Creates the check of a tree with these processes. */
  DescriptorCheck(
      FindingCollector findings,
      WorkLimit limit,
      DumpOptions options,
      RemovedFileCheck removed,
      boolean ourChild,
      List<Integer> tree) {
    this.findings = findings;
    Namespaces ofRoot = Namespaces.of(tree.get(0));
    Namespaces ours = Namespaces.ours();
    this.pidsChange =
        ofRoot.differs(Namespaces.Kind.PID, ours) && !ofRoot.differs(Namespaces.Kind.MOUNT, ours);
    this.limit = limit;
    this.removed = removed;
    this.mounts = new MountCheck(findings, tree);
    this.locks = new LockCheck(findings, options);
    this.sockets = new SocketCheck(findings, options, tree);
    this.pipes = new PipeCheck(findings, options, tree);
    this.terminals = new TerminalCheck(findings, options, ourChild);
  }

  void look(int pid) {
    ProcFs.openFiles(
        pid,
        file -> {
          limit.check();
          look(pid, file);
        });
  }

  private void look(int pid, OpenFile file) {
    ResourceRef place = ResourceRef.descriptor(pid, file.number());
    String target = file.target();
    if (target.startsWith("/")) {
      FileNode.at(place.descriptor()).ifPresent(node -> lookAtFile(place, target, node));
    } else if (target.startsWith(ANONYMOUS)) {
      lookAtAnonymous(place, target);
    } else {
      SocketTables.inode(target).ifPresent(inode -> sockets.look(place, inode));
      PipeCheck.inode(target).ifPresent(inode -> pipes.look(place, inode));
    }
  }

  /** Reports what can be decided only once the whole tree has been seen. */
  void finish() {
    sockets.finish();
    pipes.finish();
    terminals.finish();
  }

  private void lookAtFile(ResourceRef place, String target, FileNode node) {
    if (node.isCharacterDevice()) {
      if (terminals.look(place, node)) {
        return;
      }
      if (Devices.isDumped(node)) {
        lookAtMount(place, target, node);
      } else {
        Devices.refuse(findings, place, target, node);
      }
    } else if (node.isBlockDevice()) {
      Devices.refuse(findings, place, target, node);
    } else if (target.equals(SECRET)) {
      findings.problem(
          place, target, "is secret memory, which no other process can read", "close it first");
    } else if (queues.computeIfAbsent(node.device(), none -> isQueue(place.descriptor()))) {
      findings.problem(
          place, target, "is a POSIX message queue, which CRIU does not dump", "close it first");
    } else if (pidsChange && OF_A_PROCESS.matcher(target).matches()) {
      findings.problem(
          place,
          target,
          "names a process by its pid outside of its pid namespace, and the restored process has another",
          "close it first, or mount a /proc of its own in the namespace (unshare --mount-proc)");
    } else {
      lookAtMount(place, target, node);
      removed.look(place, target, node, place.descriptor());
      locks.look(place, target, node);
    }
  }

  private void lookAtMount(ResourceRef place, String target, FileNode node) {
    if (!removed.isExternal(node)) {
      mounts.look(place, target, node);
    }
  }

  private void lookAtAnonymous(ResourceRef place, String target) {
    String name = target.substring(ANONYMOUS.length()).replaceAll("[\\[\\]]", "");
    if (!KNOWN_ANONYMOUS.contains(name)) {
      findings.problem(
          name.equals("io_uring") ? Kind.IO_URING : Kind.OTHER,
          place,
          target,
          "is of a kind that CRIU does not dump",
          cure(name));
    } else if (name.equals("eventfd") && place.fdinfo(SEMAPHORE).isPresent()) {
      findings.problem(
          place,
          target,
          "is a semaphore (EFD_SEMAPHORE), which CRIU restores as a counter that one read empties",
          "close it first");
    }
  }

  private static String cure(String name) {
    return name.equals("io_uring")
        ? "close it first, or start the program with UV_USE_IO_URING=0 (libuv, uvloop), USE_LIBUV=0 (PyTorch's rendezvous), or, as torchrun's own store has no such switch, on a machine with sysctl kernel.io_uring_disabled=2"
        : "close it first";
  }

  /** Returns whether a file is a POSIX message queue. */
  private static boolean isQueue(Path file) {
    return FileSystemStatus.isOfType(file, MQUEUE_MAGIC);
  }
}
