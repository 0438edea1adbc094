package dev.gpuprocess.internal.restore;

import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.engine.TrackedProcess;
import dev.gpuprocess.internal.engine.TrackedTree;
import dev.gpuprocess.internal.image.ImageDirectory;
import dev.gpuprocess.internal.linux.ProcessKey;
import dev.gpuprocess.internal.manifest.ManifestData;
import dev.gpuprocess.internal.manifest.ManifestMember;
import dev.gpuprocess.internal.proc.FileId;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.state.GpuUsage;
import dev.gpuprocess.internal.state.ProcessHistory;
import dev.gpuprocess.report.ProcessIdentity;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Finds the members of an image in the tree that CRIU has restored.
 *
 * @param isIsolated whether the tree has a pid namespace of its own
 * @param saveFiles the files in host memory that were made for the restore, and hold GPU memory
 */
record RestoredTree(
    EngineContext context, ImageDirectory image, boolean isIsolated, List<FileId> saveFiles) {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  /** Returns the dumped process, which had another start time than the restored one. */
  ProcessIdentity dumped() {
    return new ProcessIdentity(image.manifest().pid(), image.manifest().startTicks());
  }

  /** Returns this tree, restored from these files. */
  RestoredTree from(List<FileId> files) {
    return new RestoredTree(context, image, isIsolated, files);
  }

  /** Returns the restored tree with its members, which are checkpointed. */
  TrackedTree of(ProcessIdentity root) {
    List<TrackedProcess> members = members(root);
    members.forEach(each -> each.foundIn(ProcessState.CHECKPOINTED));
    return TrackedTree.of(context, root, members);
  }

  /** Writes all members to the journal; false when that failed for one of them. */
  boolean note(ProcessIdentity root) {
    boolean all = true;
    for (TrackedProcess each : members(root)) {
      all &= each.noteState(ProcessState.CHECKPOINTED);
    }
    return all;
  }

  private List<TrackedProcess> members(ProcessIdentity root) {
    ManifestData manifest = image.manifest();
    List<TrackedProcess> found = new ArrayList<>();
    for (ManifestMember each : manifest.cudaProcesses()) {
      boolean isRoot = each.startTicks() == manifest.startTicks() && isPidOfRoot(each.pid());
      Optional<ProcessIdentity> here = isRoot ? Optional.of(root) : below(root, each.pid());
      ProcessIdentity origin =
          isRoot ? dumped() : new ProcessIdentity(each.pid(), each.startTicks());
      here.filter(ProcessIdentity::isAlive)
          .ifPresentOrElse(
              identity ->
                  found.add(
                      new TrackedProcess(
                          context,
                          identity,
                          GpuUsage.recorded(each.gpuBytes()),
                          ProcessHistory.restored(
                              image.path(), origin, manifest.label(), manifest.machine()))),
              () -> LOG.warn("process {} of {} has ended again", each.pid(), image.path()));
    }
    found.forEach(each -> each.recordSaveFiles(saveFiles));
    return TrackedTree.of(context, root, found).members();
  }

  private boolean isPidOfRoot(int pid) {
    return pid == image.manifest().pid() || (isIsolated && pid == 1);
  }

  /**
   * Finds a process of the restored tree by its pid in the image, which is that in its namespace.
   */
  private Optional<ProcessIdentity> below(ProcessIdentity root, int pid) {
    if (!isIsolated) {
      return ProcessIdentity.of(pid);
    }
    return ProcFs.descendants(root.pid()).stream()
        .flatMap(each -> ProcessIdentity.of(each).stream())
        .filter(each -> ProcessKey.of(each).pid() == pid)
        .findFirst();
  }
}
