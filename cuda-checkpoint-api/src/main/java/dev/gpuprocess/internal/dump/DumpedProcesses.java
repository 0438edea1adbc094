package dev.gpuprocess.internal.dump;

import dev.gpuprocess.image.ImageProcess;
import dev.gpuprocess.image.ImageProcess.Role;
import dev.gpuprocess.internal.engine.TrackedTree;
import dev.gpuprocess.internal.proc.Environment;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.internal.proc.ProcessUnreadableException;
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

/** Lists the processes of a tree for its manifest. */
final class DumpedProcesses {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  /** The variables of torchrun, Open MPI, MPICH and Slurm, the most reliable first. */
  private static final List<String> RANKS =
      List.of("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID");

  private static final Pattern NUMBER = Pattern.compile("\\d{1,7}");

  private final int root;
  private final boolean isolated;
  private final Set<Integer> cuda;

  /** By the pid in the pid namespace of this JVM. */
  private final Map<Integer, ImageProcess> found = new LinkedHashMap<>();

  private DumpedProcesses(TrackedTree tree, boolean isolated) {
    this.root = tree.root.pid();
    this.isolated = isolated;
    this.cuda = tree.members().stream().map(each -> each.pid()).collect(Collectors.toSet());
  }

  /**
   * Lists the processes of a tree that CRIU holds.
   *
   * @param isolated whether the tree has its own pid namespace, whose pids are listed
   * @return the root first, parents before children; null when they cannot be read, since an image
   *     is complete without them
   */
  static @Nullable List<ImageProcess> of(TrackedTree tree, boolean isolated) {
    DumpedProcesses processes = new DumpedProcesses(tree, isolated);
    try {
      for (int pid : ProcFs.tree(tree.root.pid())) {
        if (processes.found.size() < ImageProcess.MOST) {
          ProcFs.stat(pid).ifPresent(processes::add);
        }
      }
    } catch (ProcessUnreadableException e) {
      LOG.warn("the processes of {} are not named in its image: {}", tree.name(), e.getMessage());
      return null;
    }
    return processes.found.isEmpty() ? null : List.copyOf(processes.found.values());
  }

  private void add(ProcStat stat) {
    int pid = stat.pid();
    ImageProcess parent = pid == root ? null : found.get(stat.parent());
    if (pid != root && parent == null) {
      return; // its parent is not listed
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
      Map<String, String> variables = Environment.of(pid, Set.copyOf(RANKS));
      return RANKS.stream()
          .map(name -> variables.getOrDefault(name, ""))
          .filter(value -> NUMBER.matcher(value).matches())
          .findFirst()
          .map(Integer::valueOf)
          .orElse(null);
    } catch (ProcessUnreadableException e) {
      LOG.debug("the rank of process {} cannot be read", pid, e);
      return null;
    }
  }
}
