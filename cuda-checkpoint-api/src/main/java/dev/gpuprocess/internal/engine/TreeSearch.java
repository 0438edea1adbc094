package dev.gpuprocess.internal.engine;

import dev.gpuprocess.cuda.CudaResult;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.FixAndRetryException;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.error.NotCudaProcessException;
import dev.gpuprocess.internal.call.BoundedCall;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.inherited.GpuHandles;
import dev.gpuprocess.internal.linux.ProcessKey;
import dev.gpuprocess.internal.proc.GpuFiles;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcessUnreadableException;
import dev.gpuprocess.internal.proc.Unreadable;
import dev.gpuprocess.internal.state.Journal;
import dev.gpuprocess.internal.state.JournalEntry;
import dev.gpuprocess.report.ProcessIdentity;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.function.Function;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Finds a process tree and its members. A process is a member if the driver reports CUDA state for
 * it. Members that left the tree when their parent exited are found in the journal, as is a root
 * that has exited while its members are not running.
 */
public final class TreeSearch {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  /** The process from which all others of a pid namespace descend. */
  private static final int INIT = 1;

  /** Each further look means that a verb ended since the look before. */
  private static final int MOST_LOOKS = 10;

  private final EngineContext context;
  private final ProcessIdentity root;
  private final String verb;
  private final Journal journal;

  /**
   * Creates a search for members; nothing is read yet.
   *
   * @param verb for exceptions
   */
  public TreeSearch(EngineContext context, ProcessIdentity root, String verb) {
    this.context = context;
    this.root = root;
    this.verb = verb;
    this.journal = new Journal(context.state());
  }

  /**
   * Finds a tree and reads the state of each member. Only reads, and delays no verb.
   *
   * @param pid the pid of the root
   * @param verb for exceptions
   * @throws NoSuchProcessException when the process does not exist, and the journal has no member
   *     of its tree
   * @throws NotCudaProcessException when it is this JVM, or process 1 without CUDA state and this
   *     JVM descends from it
   */
  public static TrackedTree find(EngineContext context, long pid, String verb) {
    ProcessIdentity root =
        alive(pid).or(() -> journalled(context, pid)).orElseThrow(() -> absent(context, pid, verb));
    TreeSearch search = new TreeSearch(context, root, verb);
    search.requireNotInit();
    search.requireNotUs();
    return TrackedTree.of(context, root, search.members());
  }

  /** Refuses process 1 if the jobs of others are below it, and not only its own. */
  private void requireNotInit() {
    if (root.pid() == INIT
        && ProcFs.ownAncestry().stream().anyMatch(each -> each.pid() == INIT)
        && member(root).isEmpty()) {
      throw new NotCudaProcessException(
          "process 1 has no CUDA state, and all processes here descend from it: name the root of the job",
          new Failure(verb, INIT, null, null, Duration.ZERO, CudaResult.NOT_INITIALIZED, null));
    }
  }

  /** Refuses this JVM, whose tree is all that it has started. */
  private void requireNotUs() {
    if (root.pid() == ProcessHandle.current().pid()) {
      throw new NotCudaProcessException(
          "process %s is this JVM itself, and what it has started descends from it: name the root of the job"
              .formatted(root.pid()),
          Failure.of(verb, root.pid()));
    }
  }

  /**
   * Finds a tree that has a member.
   *
   * @throws NotCudaProcessException when neither the process nor a descendant uses CUDA
   * @throws NoSuchProcessException when it does not exist, or has just been killed: the driver
   *     answers then as if it had never used CUDA
   */
  public static TrackedTree findWithMembers(EngineContext context, long pid, String verb) {
    TrackedTree tree = find(context, pid, verb);
    if (tree.members().isEmpty()) {
      if (TrackedProcess.of(context, tree.root).isGone()) {
        throw absent(context, pid, verb);
      }
      throw new NotCudaProcessException(
          "process %s has no CUDA state, nor has a descendant: %s".formatted(pid, why(tree)),
          new Failure(verb, pid, null, null, Duration.ZERO, CudaResult.NOT_INITIALIZED, null));
    }
    return tree;
  }

  private static String why(TrackedTree tree) {
    try {
      for (int pid : ProcFs.tree(tree.root.pid())) {
        Optional<String> device = GpuHandles.ofAmd(pid, () -> {}).first();
        if (device.isPresent()) {
          return "it has %s open, so take it with AmdProcess.of".formatted(device.get());
        }
      }
    } catch (ProcessUnreadableException e) {
      LOG.debug("whether process {} uses an AMD GPU is not known", tree.root.pid(), e);
    }
    return "it is no CUDA program, or has not called cuInit yet";
  }

  /**
   * Returns the process with a pid.
   *
   * @throws NoSuchProcessException when it does not exist, or it has exited; for a zombie the
   *     message names the parent that has not reaped it
   */
  public static ProcessIdentity aliveRoot(EngineContext context, long pid, String verb) {
    return alive(pid).orElseThrow(() -> absent(context, pid, verb));
  }

  private static Optional<ProcessIdentity> alive(long pid) {
    return ProcessIdentity.of(pid).filter(ProcessIdentity::isAlive);
  }

  private static NoSuchProcessException absent(EngineContext context, long pid, String verb) {
    TrackedProcess.of(context, pid, verb).requireReachable(verb);
    return new NoSuchProcessException(
        "process %s has just ended".formatted(pid), Failure.of(verb, pid));
  }

  /** Returns a root that has exited, if the journal has a member of its tree. */
  private static Optional<ProcessIdentity> journalled(EngineContext context, long pid) {
    for (JournalEntry entry : new Journal(context.state()).entriesOfProcesses()) {
      ProcessKey root = entry.root();
      if (root.pid() == pid
          && root.namespace() == ProcessKey.self().namespace()
          && !entry.find().isGone()) {
        return Optional.of(new ProcessIdentity(root.pid(), root.startTicks()));
      }
    }
    return Optional.empty();
  }

  /**
   * Reads the state of a process that must be running: once if it is running, and otherwise until
   * two reads agree and no verb is under way between them. So a state in the middle of a verb,
   * which passes, is not mistaken for one that lasts.
   *
   * @param look reads the state
   * @param state the state that was read
   * @param tree the processes that were read
   * @param verb for the exception
   * @return the result of the last look
   * @throws dev.gpuprocess.error.OperationInProgressException when a verb is under way and the
   *     process is not running
   */
  public static <T> T settled(
      Supplier<T> look,
      Function<T, ProcessState> state,
      Function<T, TrackedTree> tree,
      String verb) {
    T seen = look.get();
    for (int looks = 1; looks < MOST_LOOKS; looks++) {
      if (state.apply(seen) == ProcessState.RUNNING) {
        return seen;
      }
      tree.apply(seen).requireNoVerb(verb);
      T again = look.get();
      if (state.apply(again) == state.apply(seen)
          && tree.apply(again).isWhereItWas(tree.apply(seen))) {
        return again;
      }
      seen = again;
    }
    return seen;
  }

  /**
   * Returns the members, the root first, parents before children. Each remembers its state.
   *
   * @throws FixAndRetryException with reason PROCESS_STOPPED when a process that may use CUDA is
   *     stopped: the driver would not answer
   * @throws dev.gpuprocess.error.OperationInProgressException when another verb works on a member
   *     for too long
   * @throws dev.gpuprocess.error.OperationTimedOutException when the driver does not answer in time
   * @throws ProcessUnreadableException when {@code /proc} cannot be read
   */
  public List<TrackedProcess> members() {
    return newMembers(List.of());
  }

  /** Returns the members that are not known yet. Known members may be locked and not answer. */
  public List<TrackedProcess> newMembers(List<TrackedProcess> known) {
    Set<ProcessIdentity> old =
        known.stream().map(each -> each.identity).collect(Collectors.toSet());
    List<TrackedProcess> found = new ArrayList<>();
    for (ProcessIdentity each : candidates()) {
      if (!old.contains(each)) {
        member(each).ifPresent(found::add);
      }
    }
    return found;
  }

  private Set<ProcessIdentity> candidates() {
    Set<ProcessIdentity> all = new LinkedHashSet<>();
    if (root.isAlive()) {
      all.add(root);
      for (int pid : ProcFs.descendants(root.pid())) {
        ProcessIdentity.of(pid).ifPresent(all::add);
      }
    }
    ProcessKey key = ProcessKey.of(root);
    for (JournalEntry entry : journal.entriesOfProcesses()) {
      if (key.equals(entry.root())) {
        entry.find().process().ifPresent(all::add);
      }
    }
    return all;
  }

  private Optional<TrackedProcess> member(ProcessIdentity candidate) {
    BoundedCall.requireCapacity(candidate, verb);
    TrackedProcess process = TrackedProcess.of(context, candidate);
    process.setRoot(ProcessKey.of(root));
    ProcessOperation reading = new ProcessOperation(process, verb);
    reading.awaitCriu();
    if (process.isGone() || isUnreachable(process)) {
      return Optional.empty();
    }
    return Optional.ofNullable(state(reading))
        .map(
            state -> {
              process.foundIn(state);
              return process;
            });
  }

  /** Returns whether a process has just exited, or is stopped and does not use CUDA. */
  private boolean isUnreachable(TrackedProcess process) {
    try {
      process.requireReachable(verb);
      return false;
    } catch (NoSuchProcessException e) {
      LOG.debug("process {} has just ended", process.pid());
      return true;
    } catch (FixAndRetryException stopped) {
      if (stopped.reason() != FixAndRetryException.Reason.PROCESS_STOPPED || mayUseCuda(process)) {
        throw stopped;
      }
      LOG.debug("process {} is stopped, and does not use CUDA", process.pid());
      return true;
    }
  }

  /**
   * A process that a controller checkpointed is in the journal; others need the driver's library.
   */
  private boolean mayUseCuda(TrackedProcess process) {
    return Unreadable.as(
        true,
        () -> journal.ownEntry(process.key).isPresent() || GpuFiles.isCudaMappedBy(process.pid()));
  }

  /** Returns the state; null for a process without CUDA. */
  private @Nullable ProcessState state(ProcessOperation reading) {
    try {
      return ProcessOperation.readTwice(reading::look);
    } catch (NotCudaProcessException | NoSuchProcessException e) {
      LOG.debug(
          "process {} is not a member of process {}: {}",
          reading.pid(),
          root.pid(),
          e.getMessage());
      return null;
    }
  }
}
