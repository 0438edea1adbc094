package dev.gpuprocess.internal.doctor;

import dev.gpuprocess.cuda.CudaAnswer;
import dev.gpuprocess.cuda.CudaResult;
import dev.gpuprocess.cuda.GpuReading;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.OperationInProgressException;
import dev.gpuprocess.internal.call.BoundedCall;
import dev.gpuprocess.internal.call.StateReading;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.linux.ProcessKey;
import dev.gpuprocess.internal.linux.ProcessSearch;
import dev.gpuprocess.internal.proc.GpuFiles;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.internal.proc.ProcessUnreadableException;
import dev.gpuprocess.internal.proc.Unreadable;
import dev.gpuprocess.internal.state.GpuUsage;
import dev.gpuprocess.internal.state.Journal;
import dev.gpuprocess.internal.state.JournalEntry;
import dev.gpuprocess.internal.state.LockHolder;
import dev.gpuprocess.internal.state.PidNamespace;
import dev.gpuprocess.internal.state.ProcessLock;
import dev.gpuprocess.internal.state.StateDirectory;
import dev.gpuprocess.internal.state.StateDirectoryException;
import dev.gpuprocess.internal.text.Printable;
import dev.gpuprocess.internal.time.Deadline;
import dev.gpuprocess.report.ListedProcess;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.report.SuspendedProcess;
import java.io.IOException;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.TimeoutException;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Lists the processes that use a GPU, and suspended processes. Only reads, and takes no lock. Each
 * process is read within its part of one deadline. For one thread.
 */
public final class ProcessList {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  private static final String NAME = "list processes";

  private final EngineContext context;

  /** The deadline of the present step. */
  private Deadline deadline;

  /** Creates the list; nothing is read yet. */
  public ProcessList(EngineContext context) {
    this.context = context;
    this.deadline = Deadline.after(context.timeouts().call());
  }

  /**
   * The data of a process in /proc.
   *
   * @param loadsCuda whether it may use CUDA, as far as its mappings can be read
   * @param still why the driver would not answer; empty if it would
   */
  private record Look(String owner, List<String> command, boolean loadsCuda, String still) {

    static final Look NONE = new Look("", List.of(), false, "it cannot be read from here");
  }

  /** A process that may have to be listed. */
  private record Candidate(ProcessIdentity identity, Look look, @Nullable JournalEntry entry) {}

  /** The query to the driver, or the reason why it is missing. */
  private record Query(Candidate candidate, @Nullable StateReading reading, String note) {}

  /**
   * Returns the processes that are in the journal and visible from here, by pid.
   *
   * @throws StateDirectoryException when the journal cannot be read
   */
  public List<SuspendedProcess> suspended() {
    return entries().entrySet().stream()
        .sorted(Map.Entry.comparingByKey(Comparator.comparingInt(ProcessIdentity::pid)))
        .map(each -> suspended(each.getKey(), each.getValue()))
        .toList();
  }

  private Map<ProcessIdentity, JournalEntry> entries() {
    return new Journal(context.state())
        .entries().stream()
            .filter(entry -> !entry.isImageRestore() && !entry.isOfImage())
            .flatMap(entry -> here(entry).map(found -> Map.entry(found, entry)).stream())
            .collect(Collectors.toMap(Map.Entry::getKey, Map.Entry::getValue, (one, other) -> one));
  }

  private static Optional<ProcessIdentity> here(JournalEntry entry) {
    try {
      ProcessSearch search = entry.find();
      return search.isGone() ? Optional.empty() : search.process();
    } catch (ProcessUnreadableException e) {
      LOG.debug("process {} cannot be read", entry.pid(), e);
      return Optional.empty();
    }
  }

  private static SuspendedProcess suspended(ProcessIdentity process, JournalEntry entry) {
    return new SuspendedProcess(
        process,
        entry.step(),
        entry.controller().pid(),
        entry.hasLiveController(),
        StateDirectory.user(),
        entry.history().since(),
        entry.held().known(),
        entry.history().poisoned(),
        here(entry.root()).orElse(process),
        entry.history().label());
  }

  /** Returns a root, which may have exited. */
  private static Optional<ProcessIdentity> here(ProcessKey root) {
    return root.namespace() == ProcessKey.self().namespace()
        ? Optional.of(new ProcessIdentity(root.pid(), root.startTicks()))
        : root.find().process();
  }

  /** Returns the processes that use a GPU or are suspended, by pid. */
  public List<ListedProcess> all() {
    Map<ProcessIdentity, JournalEntry> entries = entriesIfReadable();
    Optional<GpuReading> reading = context.inventory().read();
    Set<Integer> onGpu = pidsOf(reading);
    deadline = Deadline.after(context.timeouts().call());
    List<Query> querys = candidates(entries, onGpu).stream().map(this::query).toList();
    deadline = Deadline.after(context.timeouts().call());
    List<ListedProcess> all = new ArrayList<>();
    for (Query each : querys) {
      listed(each, reading, onGpu).ifPresent(all::add);
    }
    return all;
  }

  /** Returns the entries; empty without a journal: the driver and NVML still report processes. */
  private Map<ProcessIdentity, JournalEntry> entriesIfReadable() {
    try {
      return entries();
    } catch (StateDirectoryException e) {
      LOG.warn("the controllers of suspended processes are not known: {}", e.getMessage());
      return Map.of();
    }
  }

  /** Returns the pids that NVML lists, if they are in our pid namespace. */
  private static Set<Integer> pidsOf(Optional<GpuReading> reading) {
    return reading.filter(PidNamespace::isOurs).stream()
        .flatMap(all -> all.gpus().stream())
        .flatMap(gpu -> gpu.users().stream())
        .map(user -> user.pid())
        .collect(Collectors.toCollection(TreeSet::new));
  }

  private List<Candidate> candidates(
      Map<ProcessIdentity, JournalEntry> entries, Set<Integer> onGpu) {
    Set<Integer> pids = new TreeSet<>(ProcFs.processes());
    pids.addAll(onGpu);
    entries.keySet().forEach(each -> pids.add(each.pid()));
    List<Candidate> found = new ArrayList<>();
    for (int pid : pids) {
      Optional<ProcessIdentity> identity = alive(pid);
      if (identity.isPresent()) {
        JournalEntry entry = entries.get(identity.get());
        Look look = look(identity.get());
        if (look.loadsCuda() || entry != null || onGpu.contains(pid)) {
          found.add(new Candidate(identity.get(), look, entry));
        }
      }
    }
    return found;
  }

  private static Optional<ProcessIdentity> alive(int pid) {
    return Unreadable.as(
        Optional.empty(),
        () ->
            ProcFs.stat(pid)
                .filter(stat -> !stat.isDead())
                .map(stat -> new ProcessIdentity(pid, stat.startTicks())));
  }

  /**
   * Reads a process within half of the time that is left, so that the others get some: mappings and
   * arguments cannot be read while the kernel holds the lock of the process's memory map.
   */
  private Look look(ProcessIdentity process) {
    try {
      BoundedCall.requireCapacity(process, NAME);
      return BoundedCall.run(
          process,
          "read process " + process.pid(),
          deadline.remaining().dividedBy(2),
          () -> read(process.pid()),
          (late, failed) -> {});
    } catch (TimeoutException | OperationInProgressException | ProcessUnreadableException e) {
      LOG.debug("process {} cannot be read", process.pid(), e);
      return Look.NONE;
    }
  }

  private static Look read(int pid) {
    // Those of another user's process may not be readable.
    List<String> command = Unreadable.as(List.of(), () -> ProcFs.commandLine(pid));
    return new Look(
        owner(pid),
        command.isEmpty() ? ProcFs.stat(pid).map(ProcStat::name).stream().toList() : command,
        Unreadable.as(false, () -> GpuFiles.isCudaMappedBy(pid)),
        still(pid));
  }

  private static String owner(int pid) {
    String[] ids = ProcFs.status(pid).getOrDefault("Uid", "").strip().split("\\s+");
    if (ids.length < 2) {
      return "";
    }
    // The owner of the directory is root for a process that may not be dumped.
    try {
      Object shown = Files.getAttribute(ProcFs.file(pid), "unix:uid");
      if (ids[1].equals(Integer.toUnsignedString((Integer) shown))) {
        return ProcessHandle.of(pid).flatMap(handle -> handle.info().user()).orElse(ids[1]);
      }
    } catch (IOException e) {
      LOG.debug("process {} has ended", pid, e);
    }
    return ids[1];
  }

  /** Returns why a process is stopped now, without waiting for a tracer to detach. */
  private static String still(int pid) {
    List<ProcStat> stopped = ProcFs.eachTask(pid).filter(ProcStat::isStopped).toList();
    if (!stopped.isEmpty()) {
      return stopped.stream().anyMatch(ProcStat::isHeldByTracer) ? "it is traced" : "it is stopped";
    }
    return ProcFs.isFrozen(pid) ? "it is in a frozen cgroup" : "";
  }

  /**
   * Begins a query, unless the process is stopped or moved by a verb: the driver would not answer.
   */
  private Query query(Candidate candidate) {
    if (!candidate.look().still().isEmpty()) {
      return new Query(candidate, null, candidate.look().still());
    }
    try {
      Optional<LockHolder> holder =
          ProcessLock.holder(ProcessKey.of(candidate.identity()), context.state());
      return holder.isPresent()
          ? new Query(candidate, null, busy(holder.get()))
          : new Query(candidate, StateReading.ask(context.cuda(), candidate.identity().pid()), "");
    } catch (ProcessUnreadableException e) {
      return new Query(candidate, null, String.valueOf(e.getMessage()));
    }
  }

  private static String busy(LockHolder holder) {
    return "%s works on it: %s".formatted(holder, holder.verb());
  }

  private Optional<ListedProcess> listed(
      Query query, Optional<GpuReading> reading, Set<Integer> onGpu) {
    Candidate candidate = query.candidate();
    ProcessState state = null;
    String note = query.note();
    if (query.reading() != null) {
      try {
        CudaAnswer<ProcessState> answer = query.reading().await(deadline.remaining());
        state = answer.value();
        note = state == null ? note(answer.result()) : "";
        if (state == null
            && candidate.entry() == null
            && !onGpu.contains(candidate.identity().pid())) {
          return Optional.empty();
        }
      } catch (TimeoutException e) {
        LOG.debug("no answer about process {}", candidate.identity().pid(), e);
        note = "the driver did not answer within " + Printable.of(context.timeouts().call());
      } catch (GpuCheckpointException e) {
        note = String.valueOf(e.getMessage());
      }
    }
    if (!isSame(candidate.identity())) {
      return Optional.empty();
    }
    GpuUsage held = held(candidate, state, reading, onGpu);
    return Optional.of(
        new ListedProcess(
            candidate.identity(),
            candidate.look().owner(),
            candidate.look().command(),
            state,
            note,
            held.known(),
            held.complete(),
            candidate.entry() == null ? null : suspended(candidate.identity(), candidate.entry())));
  }

  private static String note(CudaResult result) {
    if (result.equals(CudaResult.NOT_INITIALIZED)) {
      return "it has no CUDA state";
    }
    return result.equals(CudaResult.OPERATING_SYSTEM)
        ? "the driver cannot reach it from here"
        : "the driver answers " + result;
  }

  private static boolean isSame(ProcessIdentity process) {
    return Unreadable.as(true, process::isAlive);
  }

  /** Returns the GPU memory of a process; from the journal if it is checkpointed. */
  private static GpuUsage held(
      Candidate candidate,
      @Nullable ProcessState state,
      Optional<GpuReading> reading,
      Set<Integer> onGpu) {
    int pid = candidate.identity().pid();
    if (onGpu.contains(pid) && state != ProcessState.CHECKPOINTED) {
      return GpuUsage.of(pid, reading);
    }
    return candidate.entry() == null ? GpuUsage.UNKNOWN : candidate.entry().held();
  }
}
