package dev.gpuprocess.internal.recovery;

import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.error.NotCudaProcessException;
import dev.gpuprocess.error.OperationInProgressException;
import dev.gpuprocess.error.StaleStateException;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.engine.DriverOperation;
import dev.gpuprocess.internal.engine.StateHandle;
import dev.gpuprocess.internal.engine.TrackedProcess;
import dev.gpuprocess.internal.engine.TrackedTree;
import dev.gpuprocess.internal.engine.TreeOperation;
import dev.gpuprocess.internal.journal.Journal;
import dev.gpuprocess.internal.journal.JournalEntry;
import dev.gpuprocess.internal.linux.ProcessKey;
import dev.gpuprocess.internal.linux.ProcessSearch;
import dev.gpuprocess.internal.lock.ProcessLock;
import dev.gpuprocess.process.ProcessIdentity;
import dev.gpuprocess.progress.RecoveryOutcome;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Mends the members of one tree that a dead controller left, under the locks of all: if one of them
 * is checkpointed the others stay locked, and the tree waits to be resumed as a whole; otherwise
 * locked members are unlocked.
 */
final class TreeRecovery {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  private static final String VERB = "recover";

  private final EngineContext context;
  private final Journal journal;
  private final ProcessKey root;
  private final List<JournalEntry> entries;
  private final List<RecoveredProcess> told = new ArrayList<>();

  /**
   * Prepares; nothing is done yet.
   *
   * @param root of the tree
   * @param entries of its members, at least one, all of dead controllers
   */
  TreeRecovery(
      EngineContext context, Journal journal, ProcessKey root, List<JournalEntry> entries) {
    this.context = context;
    this.journal = journal;
    this.root = root;
    this.entries = entries;
  }

  List<RecoveredProcess> run() {
    Map<TrackedProcess, JournalEntry> members = members();
    if (members.isEmpty()) {
      return told;
    }
    TrackedTree tree = TrackedTree.of(context, rootHere(), List.copyOf(members.keySet()));
    try {
      told.addAll(
          tree.exclusively(VERB, ProcessLock.Kind.MOVE, 0, operation -> mend(operation, members)));
    } catch (NoSuchProcessException e) {
      members.values().forEach(this::gone);
    } catch (OperationInProgressException | StaleStateException e) {
      members.values().forEach(entry -> tell(entry, RecoveryOutcome.IN_USE));
    } catch (GpuCheckpointException e) {
      LOG.warn("process {} cannot be recovered now: {}", root.pid(), e.getMessage());
      members.values().forEach(entry -> tell(entry, RecoveryOutcome.UNREACHABLE));
    }
    return told;
  }

  /** The root may have ended, or be out of our sight. */
  private ProcessIdentity rootHere() {
    return root.find()
        .process()
        .orElseGet(() -> new ProcessIdentity(root.pid(), root.startTicks()));
  }

  private Map<TrackedProcess, JournalEntry> members() {
    Map<TrackedProcess, JournalEntry> members = new LinkedHashMap<>();
    for (JournalEntry entry : entries) {
      ProcessSearch search = entry.find();
      if (search.isGone()) {
        gone(entry);
      } else if (search.process().isEmpty()) {
        LOG.warn(
            "process {} of pid namespace {} cannot be seen from here; recover there, or on the host",
            entry.key().pid(),
            Long.toString(entry.key().namespace()));
        tell(entry, RecoveryOutcome.UNREACHABLE);
      } else {
        add(search.process().get(), entry, members);
      }
    }
    return members;
  }

  private void add(
      ProcessIdentity process, JournalEntry entry, Map<TrackedProcess, JournalEntry> members) {
    try {
      TrackedProcess target = TrackedProcess.of(context, process.pid(), VERB);
      if (target.key.equals(entry.key())) {
        members.put(target, entry);
      } else if (target.identity.equals(process)) {
        tell(entry, RecoveryOutcome.UNREACHABLE);
      } else {
        gone(entry);
      }
    } catch (NoSuchProcessException e) {
      gone(entry);
    }
  }

  private void gone(JournalEntry entry) {
    journal.remove(entry.key());
    tell(entry, RecoveryOutcome.GONE);
  }

  private void tell(JournalEntry entry, RecoveryOutcome outcome) {
    told.add(new RecoveredProcess(entry.target(), outcome, null));
  }

  private List<RecoveredProcess> mend(
      TreeOperation operation, Map<TrackedProcess, JournalEntry> members) {
    List<RecoveredProcess> mended = new ArrayList<>();
    Map<DriverOperation, ProcessState> states = new LinkedHashMap<>();
    for (Map.Entry<TrackedProcess, JournalEntry> each : members.entrySet()) {
      if (!journal.find(each.getKey().key).equals(Optional.of(each.getValue()))
          && each.getKey().identity.isAlive()) {
        throw new OperationInProgressException(
            "another controller has begun to work on process " + root.pid(),
            operation.failure(null, null));
      }
    }
    for (DriverOperation each : operation.each()) {
      ProcessState state = state(each);
      if (state == null) {
        journal.remove(each.target().key);
        mended.add(recovered(each, RecoveryOutcome.GONE, null));
      } else {
        states.put(each, state);
        each.target().isAt(state);
      }
    }
    StateHandle suspended =
        states.containsValue(ProcessState.CHECKPOINTED)
            ? StateHandle.next(operation.tree(), List.of())
            : null;
    states.forEach((each, state) -> mended.add(mend(each, state, suspended)));
    members.keySet().stream()
        .filter(each -> mended.stream().noneMatch(m -> m.process().equals(each.identity)))
        .forEach(
            each -> mended.add(new RecoveredProcess(each.identity, RecoveryOutcome.GONE, null)));
    return mended;
  }

  /** Null for a process without CUDA state, and for one that has just ended. */
  private static @Nullable ProcessState state(DriverOperation member) {
    try {
      return DriverOperation.askedTwice(member::readState);
    } catch (NoSuchProcessException | NotCudaProcessException e) {
      LOG.debug("process {} is no member", member.pid(), e);
      return null;
    }
  }

  private RecoveredProcess mend(
      DriverOperation member, ProcessState state, @Nullable StateHandle suspended) {
    Recovery.takeAway(member.target().identity, state);
    return switch (state) {
      case RUNNING -> {
        member.target().forget();
        yield recovered(member, RecoveryOutcome.RUNNING, null);
      }
      case LOCKED -> suspended == null ? unlocked(member) : waiting(member, state, suspended);
      case CHECKPOINTED ->
          member.target().isPoisoned()
              ? recovered(member, RecoveryOutcome.POISONED, null)
              : waiting(member, state, suspended);
      case FAILED -> recovered(member, RecoveryOutcome.FAILED, null);
      default -> recovered(member, RecoveryOutcome.UNREACHABLE, null);
    };
  }

  private static RecoveredProcess waiting(
      DriverOperation member, ProcessState state, @Nullable StateHandle suspended) {
    member.target().note(state.name().toLowerCase(Locale.ROOT), ProcessLock.Kind.MOVE);
    return recovered(member, RecoveryOutcome.SUSPENDED, suspended);
  }

  private static RecoveredProcess unlocked(DriverOperation member) {
    try {
      member.calls().unlock();
      member.target().forget();
      return recovered(member, RecoveryOutcome.UNLOCKED, null);
    } catch (NoSuchProcessException e) {
      member.target().forget();
      return recovered(member, RecoveryOutcome.GONE, null);
    } catch (GpuCheckpointException e) {
      LOG.warn("process {} cannot be recovered now: {}", member.pid(), e.getMessage());
      return recovered(member, RecoveryOutcome.UNREACHABLE, null);
    }
  }

  private static RecoveredProcess recovered(
      DriverOperation member, RecoveryOutcome outcome, @Nullable StateHandle suspended) {
    return new RecoveredProcess(member.target().identity, outcome, suspended);
  }
}
