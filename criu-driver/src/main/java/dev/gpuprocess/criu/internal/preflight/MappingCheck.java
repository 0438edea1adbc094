package dev.gpuprocess.criu.internal.preflight;

import dev.gpuprocess.error.UnsupportedResource;
import dev.gpuprocess.internal.linux.MappedFile;
import dev.gpuprocess.internal.proc.FileNode;
import dev.gpuprocess.internal.proc.Mapping;
import dev.gpuprocess.internal.proc.Namespaces;
import dev.gpuprocess.internal.proc.Namespaces.Kind;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.time.WorkLimit;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

/** The files mapped by the tree. */
final class MappingCheck {

  private static final String SYSTEM_V = "/SYSV";
  private static final String ANONYMOUS = "anon_inode:";

  /** Shared memory that only looks like a removed file. */
  private static final List<String> SHARED_MEMORY =
      List.of("/dev/zero (deleted)", "/memfd:", "/[aio]", "/anon_hugepage");

  private final FindingCollector findings;
  private final WorkLimit limit;
  private final RemovedFileCheck removed;
  private final boolean ownIpcNamespace;

  /** Names are long and there can be many, so only a hash of each is kept. */
  private record FileSeen(String device, long inode, int name) {

    static FileSeen by(Mapping mapping) {
      return new FileSeen(mapping.device(), mapping.inode(), mapping.name().hashCode());
    }
  }

  MappingCheck(
      FindingCollector findings, WorkLimit limit, RemovedFileCheck removed, ProcessIdentity root) {
    this.findings = findings;
    this.limit = limit;
    this.removed = removed;
    this.ownIpcNamespace = Namespaces.of(root.pid()).differs(Kind.IPC, Namespaces.ours());
  }

  /** Checks a file that is mapped in pieces only once. */
  void look(int pid) {
    Set<FileSeen> seen = new HashSet<>();
    ProcFs.memory(
        pid,
        mapping -> {
          limit.check();
          if (hasFile(mapping) && seen.add(FileSeen.by(mapping))) {
            look(ResourceRef.mapping(pid, mapping), mapping);
          }
        });
  }

  /**
   * The inode of a System V segment is its identifier, which is 0 for the first one of a machine.
   */
  private static boolean hasFile(Mapping mapping) {
    return mapping.inode() != 0 || mapping.name().startsWith(SYSTEM_V);
  }

  private void look(ResourceRef place, Mapping mapping) {
    String name = mapping.name();
    if (name.startsWith(SYSTEM_V)) {
      if (!ownIpcNamespace) {
        findings.problem(
            UnsupportedResource.Kind.SYSTEM_V_MEMORY,
            place,
            name,
            "is System V shared memory, but the tree has no IPC namespace of its own",
            "start the job in one (unshare --ipc)");
      }
    } else if (name.startsWith(ANONYMOUS)) {
      findings.problem(
          place, name, "is of a kind that CRIU does not dump", "let the process unmap it first");
    } else if (name.startsWith("/") && SHARED_MEMORY.stream().noneMatch(name::startsWith)) {
      lookAtMapped(place, mapping);
    }
  }

  private void lookAtMapped(ResourceRef place, Mapping mapping) {
    String name = mapping.name();
    try (MappedFile file = MappedFile.hold(place.pid(), mapping)) {
      lookAtFile(place, name, file.node(), file.path());
    } catch (IOException goneOrForbidden) {
      place
          .seenByProcess(name)
          .ifPresent(
              path -> FileNode.at(path).ifPresent(node -> lookAtFile(place, name, node, path)));
    }
  }

  private void lookAtFile(ResourceRef place, String name, FileNode node, Path link) {
    if (node.isRegular()) {
      removed.look(place, name, node, link);
    } else if (!Devices.isZero(node)) {
      Devices.refuse(findings, place, name, node);
    }
  }
}
