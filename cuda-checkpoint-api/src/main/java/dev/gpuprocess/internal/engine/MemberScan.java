package dev.gpuprocess.internal.engine;

import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.error.NotCudaProcessException;
import dev.gpuprocess.error.ProcessStoppedException;
import dev.gpuprocess.error.ProcessUnreadableException;
import dev.gpuprocess.internal.call.BoundedCall;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.journal.Journal;
import dev.gpuprocess.internal.journal.JournalEntry;
import dev.gpuprocess.internal.linux.ProcessKey;
import dev.gpuprocess.internal.proc.CudaLibrary;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.process.ProcessIdentity;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Finds the CUDA processes of a tree by what the driver answers, and those that the journal knows
 * as members of it although they left the tree when their parent ended.
 */
public final class MemberScan {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  private final EngineContext context;
  private final ProcessIdentity root;
  private final String verb;
  private final Journal journal;

  /**
   * Prepares; nothing is read yet.
   *
   * @param verb for exceptions
   */
  public MemberScan(EngineContext context, ProcessIdentity root, String verb) {
    this.context = context;
    this.root = root;
    this.verb = verb;
    this.journal = new Journal(context.state());
  }

  /**
   * The members, the root first, parents before children. It is remembered of each in which state
   * it is.
   *
   * @throws ProcessStoppedException when one that may use CUDA is stopped: the driver would not
   *     answer
   * @throws dev.gpuprocess.error.OperationInProgressException when another verb works on one of
   *     them for too long
   * @throws dev.gpuprocess.error.OperationTimedOutException when the driver does not answer in time
   * @throws ProcessUnreadableException when {@code /proc} cannot be read
   */
  public List<TrackedProcess> all() {
    return newcomers(List.of());
  }

  /** Those that are not known yet, of which some may be locked and not answer. */
  public List<TrackedProcess> newcomers(List<TrackedProcess> known) {
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

  private Optional<TrackedProcess> member(ProcessIdentity process) {
    BoundedCall.requireCapacity(process, verb);
    TrackedProcess target = TrackedProcess.of(context, process);
    DriverOperation reading = new DriverOperation(target, verb, null);
    reading.awaitCriu();
    if (target.isGone() || isAtRest(target)) {
      return Optional.empty();
    }
    return Optional.ofNullable(state(reading))
        .map(
            state -> {
              target.isAt(state);
              return target;
            });
  }

  /** Whether it has just ended, or is stopped and has nothing to do with CUDA. */
  private boolean isAtRest(TrackedProcess target) {
    try {
      ReachabilityCheck.require(target, verb);
      return false;
    } catch (NoSuchProcessException e) {
      LOG.debug("process {} has just ended", target.pid());
      return true;
    } catch (ProcessStoppedException e) {
      if (mayUseCuda(target)) {
        throw e;
      }
      LOG.debug("process {} is stopped, and does not use CUDA", target.pid());
      return true;
    }
  }

  /** Without the driver's library it cannot, and what we checkpointed is in the journal. */
  private boolean mayUseCuda(TrackedProcess target) {
    try {
      return journal.ownEntry(target.key).isPresent() || CudaLibrary.isMappedBy(target.pid());
    } catch (ProcessUnreadableException e) {
      LOG.debug("whether process {} uses CUDA is not known", target.pid(), e);
      return true;
    }
  }

  /** Null for one without CUDA. */
  private @Nullable ProcessState state(DriverOperation reading) {
    TrackedProcess target = reading.target();
    try {
      return DriverOperation.askedTwice(reading::look);
    } catch (NotCudaProcessException | NoSuchProcessException e) {
      LOG.debug(
          "process {} is no member of process {}: {}", target.pid(), root.pid(), e.getMessage());
      return null;
    }
  }
}
