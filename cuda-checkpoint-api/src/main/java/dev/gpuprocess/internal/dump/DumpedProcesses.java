package dev.gpuprocess.internal.dump;

import dev.gpuprocess.error.ProcessUnreadableException;
import dev.gpuprocess.image.ImageProcess;
import dev.gpuprocess.image.ImageProcess.Role;
import dev.gpuprocess.internal.engine.TrackedTree;
import dev.gpuprocess.internal.proc.Environment;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.internal.text.Printable;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalInt;
import java.util.Set;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The tree that CRIU holds, as a manifest names it. */
final class DumpedProcesses {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  /** Of torchrun, Open MPI, MPICH and Slurm, in the order in which they are believed. */
  private static final List<String> RANKS =
      List.of("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID");

  private static final Pattern NUMBER = Pattern.compile("\\d{1,7}");

  private final int root;
  private final boolean isolated;
  private final Set<Integer> cuda;

  /** By the pid that we see. */
  private final Map<Integer, ImageProcess> found = new LinkedHashMap<>();

  private DumpedProcesses(TrackedTree job, boolean isolated) {
    this.root = job.root.pid();
    this.isolated = isolated;
    this.cuda = job.members().stream().map(each -> each.pid()).collect(Collectors.toSet());
  }

  /**
   * Lists them.
   *
   * @param isolated whether the process has a pid namespace of its own, which the pids are of
   * @return the root first, parents before children; null when they cannot be read now, as an image
   *     is whole without
   */
  static @Nullable List<ImageProcess> of(TrackedTree job, boolean isolated) {
    DumpedProcesses tree = new DumpedProcesses(job, isolated);
    try {
      for (int pid : ProcFs.tree(job.root.pid())) {
        if (tree.found.size() < ImageProcess.MOST) {
          ProcFs.stat(pid).ifPresent(tree::add);
        }
      }
    } catch (ProcessUnreadableException e) {
      LOG.warn("the processes of {} are not named in its image: {}", job.name(), e.getMessage());
      return null;
    }
    return tree.found.isEmpty() ? null : List.copyOf(tree.found.values());
  }

  private void add(ProcStat stat) {
    int pid = stat.pid();
    ImageProcess parent = pid == root ? null : found.get(stat.parent());
    if (pid != root && parent == null) {
      return; // below one that was left out
    }
    OptionalInt known = isolated ? ProcFs.innermostPid(pid) : OptionalInt.of(pid);
    if (known.isEmpty()) {
      return; // it has ended
    }
    int inside = known.getAsInt();
    found.put(
        pid,
        new ImageProcess(
            inside,
            parent == null ? 0 : parent.pid(),
            inside == pid ? null : pid,
            Printable.of(stat.name(), ImageProcess.LONGEST_NAME),
            role(pid, parent),
            cuda.contains(pid) ? rank(pid) : null));
  }

  private Role role(int pid, @Nullable ImageProcess parent) {
    if (cuda.contains(pid)) {
      return Role.CUDA;
    }
    if (parent == null) {
      return cuda.isEmpty() ? Role.OTHER : Role.LAUNCHER;
    }
    boolean belowCuda = parent.role() == Role.CUDA || parent.role() == Role.WORKER;
    return belowCuda ? Role.WORKER : Role.OTHER;
  }

  private static @Nullable Integer rank(int pid) {
    try {
      Map<String, String> told = Environment.of(pid, Set.copyOf(RANKS));
      return RANKS.stream()
          .map(name -> told.getOrDefault(name, ""))
          .filter(value -> NUMBER.matcher(value).matches())
          .findFirst()
          .map(Integer::valueOf)
          .orElse(null);
    } catch (ProcessUnreadableException e) {
      LOG.debug("which rank process {} is cannot be read", pid, e);
      return null;
    }
  }
}
