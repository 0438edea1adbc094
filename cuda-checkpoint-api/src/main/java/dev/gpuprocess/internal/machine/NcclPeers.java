package dev.gpuprocess.internal.machine;

import dev.gpuprocess.internal.proc.Environment;
import dev.gpuprocess.internal.proc.Mapping;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.internal.proc.ProcessUnreadableException;
import dev.gpuprocess.internal.proc.SocketTables;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
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
 * Processes that use CUDA and have loaded NCCL, as the ranks of a training: a process, its
 * descendants, and those of its parent. By default NCCL maps memory of one rank into another, which
 * drivers before 610 do not restore. A statically linked NCCL is not found, nor are processes that
 * may not be read. Immutable.
 *
 * @param processes two or more
 * @param missing the settings without which at least one of them was started
 */
public record NcclPeers(List<Integer> processes, List<String> missing) {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  private static final Pattern LIBRARY = Pattern.compile(".*/libnccl\\.so[^/]*");

  /** The padded name of the socket through which the ranks of one machine pass memory. */
  private static final Pattern SOCKET = Pattern.compile("@tmp/nccl-socket-\\d+-\\p{XDigit}+@*");

  /** The most processes that are read; two are enough for a warning. */
  private static final int MOST = 256;

  private static final int INIT = 1;
  private static final int MOST_NAMED = 8;

  /**
   * The settings with which NCCL shares no memory; and one for PyTorch, whose rendezvous otherwise
   * uses io_uring, which CRIU does not dump. The store of torchrun itself ignores it (2.11). 1 is
   * on and 0 is off.
   */
  private static final List<String> NEEDED =
      List.of("NCCL_P2P_DISABLE=1", "NCCL_NVLS_ENABLE=0", "NCCL_SHM_DISABLE=1", "USE_LIBUV=0");

  private static final Set<String> NAMES =
      NEEDED.stream().map(NcclPeers::name).collect(Collectors.toUnmodifiableSet());

  /** The variables of PyTorch for the number of ranks and the address of their rendezvous. */
  private static final String RANKS = "WORLD_SIZE";

  private static final List<String> MEETING = List.of("MASTER_ADDR", "MASTER_PORT");

  private static final Set<String> OF_RANKS =
      Stream.concat(Stream.of(RANKS), MEETING.stream()).collect(Collectors.toUnmodifiableSet());

  public NcclPeers {
    processes = List.copyOf(processes);
    missing = List.copyOf(missing);
  }

  /**
   * Finds the peers of a process. Changes nothing.
   *
   * @param usesCuda called for processes that have loaded NCCL
   * @param each called again and again; its exception ends the search
   * @return empty if there are fewer than two
   * @throws ProcessUnreadableException if an environment cannot be read
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
   * Finds peers that may have passed memory to each other. They have a communicator, as the socket
   * shows that NCCL opens for it from version 2.19 on, and their variables name the same
   * rendezvous. Changes nothing and calls no driver, so the processes may be locked.
   *
   * @param pids the processes; their descendants and those of their parents are read
   * @param each called again and again; its exception ends the search
   * @return empty if there are fewer than two
   * @throws ProcessUnreadableException if they cannot be read
   */
  public static Optional<NcclPeers> communicating(Collection<Integer> pids, Runnable each) {
    Set<Integer> candidates = new LinkedHashSet<>();
    Set<Integer> own = new LinkedHashSet<>();
    for (int pid : pids) {
      // Reading a tree reads all processes of the machine, and most pids are in the first tree.
      if (!own.contains(pid)) {
        own.addAll(ProcFs.tree(pid));
        candidates.addAll(candidates(pid));
      }
    }
    Map<List<String>, List<Integer>> groups = new LinkedHashMap<>();
    Set<Long> seen = new HashSet<>();
    for (int candidate : candidates) {
      each.run();
      // A forked child, such as a data loader, has only its parent's sockets and is not a rank.
      if (hasLoaded(candidate, each) && seen.addAll(communicators(candidate))) {
        Map<String, String> variables = Environment.of(candidate, OF_RANKS);
        if (!variables.getOrDefault(RANKS, "").equals("1")) {
          List<String> meeting =
              MEETING.stream().map(name -> variables.getOrDefault(name, "")).toList();
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

  /** Returns the inodes of the sockets that NCCL opened for its communicators. */
  private static Set<Long> communicators(int pid) {
    Map<Long, String> names = SocketTables.unixNames(pid);
    return ProcFs.visibleFiles(pid).stream()
        .flatMap(file -> SocketTables.inode(file.target()).stream())
        .filter(inode -> SOCKET.matcher(names.getOrDefault(inode, "")).matches())
        .collect(Collectors.toSet());
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
    try {
      return !Mapping.of(
              pid,
              mapping -> {
                each.run();
                return LIBRARY.matcher(mapping.name()).matches();
              })
          .isEmpty();
    } catch (ProcessUnreadableException e) {
      LOG.debug("it is not known whether process {} uses NCCL", pid, e);
      return false;
    }
  }

  private static List<String> missingIn(List<Integer> ranks) {
    List<Map<String, String>> environments =
        ranks.stream().map(rank -> Environment.of(rank, NAMES)).toList();
    return NEEDED.stream()
        .filter(setting -> environments.stream().anyMatch(each -> !isIn(each, setting)))
        .toList();
  }

  private static boolean isIn(Map<String, String> environment, String setting) {
    String name = name(setting);
    return setting.equals(name + "=" + environment.getOrDefault(name, "").strip());
  }

  private static String name(String setting) {
    return setting.substring(0, setting.indexOf('='));
  }

  /** Returns whether the processes may map each other's memory, by the missing settings. */
  public boolean mayMapMemory() {
    return missing.stream().anyMatch(setting -> setting.startsWith("NCCL_"));
  }

  /** Returns the missing settings, such as {@code NCCL_P2P_DISABLE=1 USE_LIBUV=0}; may be empty. */
  public String settings() {
    return String.join(" ", missing);
  }

  /** Returns the first pids, such as {@code processes 12, 13}. */
  public String names() {
    Stream<String> named = processes.stream().limit(MOST_NAMED).map(String::valueOf);
    int more = processes.size() - MOST_NAMED;
    return "processes "
        + named.collect(Collectors.joining(", "))
        + (more > 0 ? " and %s more".formatted(more) : "");
  }
}
