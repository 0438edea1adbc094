package dev.gpuprocess.internal.machine;

import dev.gpuprocess.error.ProcessUnreadableException;
import dev.gpuprocess.internal.proc.Environment;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.internal.proc.SocketTables;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
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
 * Processes that use CUDA and have loaded NCCL, as the ranks of a training have: a process, what
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

  /** What NCCL calls the socket through which the ranks of one machine pass memory, padded. */
  private static final Pattern SOCKET = Pattern.compile("@tmp/nccl-socket-\\d+-\\p{XDigit}+@*");

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

  /**
   * The last: PyTorch's rendezvous uses io_uring otherwise, which CRIU does not dump. The store of
   * torchrun itself does not look at it (2.11).
   */
  private static final List<Setting> NEEDED =
      List.of(
          new Setting("NCCL_P2P_DISABLE", "1"),
          new Setting("NCCL_NVLS_ENABLE", "0"),
          new Setting("NCCL_SHM_DISABLE", "1"),
          new Setting("USE_LIBUV", "0"));

  private static final Set<String> NAMES =
      NEEDED.stream().map(Setting::name).collect(Collectors.toUnmodifiableSet());

  /** With which PyTorch tells a rank how many there are, and where they meet. */
  private static final String RANKS = "WORLD_SIZE";

  private static final List<String> MEETING = List.of("MASTER_ADDR", "MASTER_PORT");

  private static final Set<String> OF_RANKS =
      Stream.concat(Stream.of(RANKS), MEETING.stream()).collect(Collectors.toUnmodifiableSet());

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

  /**
   * Looks for those of some processes that can have passed memory to each other: they have a
   * communicator, as told by the socket that NCCL opens for one, from version 2.19 on, and nothing
   * says that it is another's. Touches nothing and asks the driver nothing, so they may be locked.
   *
   * @param pids whose; what descends from them and from their parents is looked at
   * @param each called again and again; what it throws ends the look
   * @return empty when there are not at least two
   * @throws ProcessUnreadableException when they cannot be looked at
   */
  public static Optional<NcclPeers> communicating(Collection<Integer> pids, Runnable each) {
    Set<Integer> candidates = new LinkedHashSet<>();
    Set<Integer> own = new LinkedHashSet<>();
    for (int pid : pids) {
      // Each look at a tree reads all processes of the machine, and most are of the first.
      if (!own.contains(pid)) {
        own.addAll(ProcFs.tree(pid));
        candidates.addAll(candidates(pid));
      }
    }
    Map<List<String>, List<Integer>> groups = new LinkedHashMap<>();
    for (int candidate : candidates) {
      each.run();
      if (hasLoaded(candidate, each) && hasCommunicator(candidate)) {
        Map<String, String> told = Environment.of(candidate, OF_RANKS);
        if (!told.getOrDefault(RANKS, "").equals("1")) {
          List<String> meeting = MEETING.stream().map(name -> told.getOrDefault(name, "")).toList();
          groups.computeIfAbsent(meeting, none -> new ArrayList<>()).add(candidate);
        }
      }
    }
    List<Integer> ranks =
        groups.values().stream()
            .filter(group -> group.size() > 1 && group.stream().anyMatch(own::contains))
            .flatMap(List::stream)
            .toList();
    return ranks.isEmpty() ? Optional.empty() : Optional.of(new NcclPeers(ranks, missingIn(ranks)));
  }

  private static boolean hasCommunicator(int pid) {
    Map<Long, String> names = SocketTables.unixNames(pid);
    return ProcFs.visibleFiles(pid).stream()
        .flatMap(file -> SocketTables.inode(file.target()).stream())
        .map(inode -> names.getOrDefault(inode, ""))
        .anyMatch(name -> SOCKET.matcher(name).matches());
  }

  private static List<Integer> candidates(int pid) {
    Set<Integer> candidates = new LinkedHashSet<>(ProcFs.tree(pid));
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

  /** Whether a setting is missing without which they map each other's memory. */
  public boolean mayMapMemory() {
    return missing.stream().anyMatch(setting -> setting.startsWith("NCCL_"));
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
