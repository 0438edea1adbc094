package dev.gpuprocess.internal.nccl;

import dev.gpuprocess.error.ProcessUnreadableException;
import dev.gpuprocess.internal.proc.Environment;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.IntPredicate;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Processes that use CUDA and have loaded NCCL, as the ranks of a job have: a process, what
 * descends from it, and what its parent has started beside it. Unless told otherwise NCCL maps
 * memory of one rank into another, which no driver below 610 carries. NCCL that is linked
 * statically is not seen, nor are processes that may not be looked at. Immutable.
 *
 * @param processes two or more
 * @param missing the settings that at least one of them was started without
 */
public record NcclPeers(List<Integer> processes, List<String> missing) {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  private static final Pattern LIBRARY = Pattern.compile(".*/libnccl\\.so[^/]*");

  /** More are not looked at: two are enough to warn. */
  private static final int MOST = 256;

  private static final int INIT = 1;
  private static final int MOST_NAMED = 8;

  /** A switch. For NCCL and PyTorch alike, 1 is on and 0 is off. */
  private record Setting(String name, String value) {

    @Override
    public String toString() {
      return name + "=" + value;
    }
  }

  /** The last: PyTorch's rendezvous uses io_uring otherwise, which CRIU does not dump. */
  private static final List<Setting> NEEDED =
      List.of(
          new Setting("NCCL_P2P_DISABLE", "1"),
          new Setting("NCCL_NVLS_ENABLE", "0"),
          new Setting("NCCL_SHM_DISABLE", "1"),
          new Setting("USE_LIBUV", "0"));

  private static final Set<String> NAMES =
      NEEDED.stream().map(Setting::name).collect(Collectors.toUnmodifiableSet());

  /** Keeps copies. */
  public NcclPeers {
    processes = List.copyOf(processes);
    missing = List.copyOf(missing);
  }

  /**
   * Looks for those of a process. Touches nothing.
   *
   * @param usesCuda asked of processes that have loaded NCCL
   * @param each called again and again; what it throws ends the look
   * @return empty when there are not at least two
   * @throws ProcessUnreadableException when an environment cannot be read
   */
  public static Optional<NcclPeers> of(int pid, IntPredicate usesCuda, Runnable each) {
    List<Integer> ranks =
        candidates(pid).stream()
            .filter(candidate -> hasLoaded(candidate, each))
            .filter(candidate -> usesCuda.test(candidate))
            .toList();
    return ranks.size() < 2
        ? Optional.empty()
        : Optional.of(new NcclPeers(ranks, missingIn(ranks)));
  }

  private static List<Integer> candidates(int pid) {
    Set<Integer> candidates = new LinkedHashSet<>(List.of(pid));
    candidates.addAll(ProcFs.descendants(pid));
    int parent = ProcFs.stat(pid).map(ProcStat::parent).orElse(INIT);
    if (parent > INIT) {
      candidates.addAll(ProcFs.descendants(parent));
    }
    return candidates.stream().limit(MOST).toList();
  }

  private static boolean hasLoaded(int pid, Runnable each) {
    List<String> found = new ArrayList<>();
    try {
      ProcFs.memory(
          pid,
          mapping -> {
            each.run();
            if (found.isEmpty() && LIBRARY.matcher(mapping.name()).matches()) {
              found.add(mapping.name());
            }
          });
    } catch (ProcessUnreadableException e) {
      LOG.debug("whether process {} uses NCCL is not known", pid, e);
    }
    return !found.isEmpty();
  }

  private static List<String> missingIn(List<Integer> ranks) {
    Set<Setting> set = new LinkedHashSet<>(NEEDED);
    for (int rank : ranks) {
      Map<String, String> environment = Environment.of(rank, NAMES);
      set.removeIf(each -> !each.value().equals(environment.getOrDefault(each.name(), "").strip()));
    }
    return NEEDED.stream().filter(each -> !set.contains(each)).map(Setting::toString).toList();
  }

  /** Such as {@code NCCL_P2P_DISABLE=1 USE_LIBUV=0}; empty when all are set. */
  public String settings() {
    return String.join(" ", missing);
  }

  /** Such as {@code processes 12, 13}; of many the first. */
  public String names() {
    Stream<String> named = processes.stream().limit(MOST_NAMED).map(String::valueOf);
    int more = processes.size() - MOST_NAMED;
    return "processes "
        + named.collect(Collectors.joining(", "))
        + (more > 0 ? " and %s more".formatted(more) : "");
  }
}
