package dev.gpuprocess.internal.recovery;

import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.error.NotCudaProcessException;
import dev.gpuprocess.error.OperationInProgressException;
import dev.gpuprocess.error.StaleStateException;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.engine.ProcessOperation;
import dev.gpuprocess.internal.engine.Resumption;
import dev.gpuprocess.internal.engine.StateHandle;
import dev.gpuprocess.internal.engine.TrackedProcess;
import dev.gpuprocess.internal.engine.TrackedTree;
import dev.gpuprocess.internal.engine.TreeOperation;
import dev.gpuprocess.internal.linux.ProcessKey;
import dev.gpuprocess.internal.linux.ProcessSearch;
import dev.gpuprocess.internal.state.Journal;
import dev.gpuprocess.internal.state.JournalEntry;
import dev.gpuprocess.internal.state.ProcessLock;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.report.RecoveryOutcome;
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
 * Recovers the members of one tree that a dead controller left, under the locks of all: if a member
 * is checkpointed, the others stay locked, and the tree waits to be resumed as a whole; otherwise
 * locked members are unlocked.
 */
final class TreeRecovery {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  private final EngineContext context;
  private final Journal journal;
  private final ProcessKey root;
  private final List<JournalEntry> entries;
  private final List<RecoveredProcess> found = new ArrayList<>();

  /**
   * Creates a recovery, which changes nothing yet.
   *
   * @param root the root of the tree
   * @param entries the entries of its members, at least one, all of dead controllers
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
      return found;
    }
    TrackedTree tree = TrackedTree.of(context, rootHere(), List.copyOf(members.keySet()));
    try {
      found.addAll(
          tree.exclusively(
              Recovery.VERB, ProcessLock.Kind.MOVE, 0, operation -> recover(operation, members)));
    } catch (NoSuchProcessException e) {
      members.values().forEach(this::gone);
    } catch (OperationInProgressException | StaleStateException e) {
      members.values().forEach(entry -> add(entry, RecoveryOutcome.IN_USE));
    } catch (GpuCheckpointException e) {
      LOG.warn("process {} cannot be recovered now: {}", root.pid(), e.getMessage());
      members.values().forEach(entry -> add(entry, RecoveryOutcome.UNREACHABLE));
    }
    return found;
  }

  /** The root may have exited, or may be in a pid namespace that is not visible from here. */
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
        add(entry, RecoveryOutcome.UNREACHABLE);
      } else {
        add(search.process().get(), entry, members);
      }
    }
    return members;
  }

  private void add(
      ProcessIdentity process, JournalEntry entry, Map<TrackedProcess, JournalEntry> members) {
    try {
      TrackedProcess member = TrackedProcess.of(context, process.pid(), Recovery.VERB);
      if (member.key.equals(entry.key())) {
        members.put(member, entry);
      } else if (member.identity.equals(process)) {
        add(entry, RecoveryOutcome.UNREACHABLE);
      } else {
        gone(entry);
      }
    } catch (NoSuchProcessException e) {
      gone(entry);
    }
  }

  private void gone(JournalEntry entry) {
    journal.remove(entry.key());
    add(entry, RecoveryOutcome.GONE);
  }

  private void add(JournalEntry entry, RecoveryOutcome outcome) {
    found.add(new RecoveredProcess(entry.process(), outcome, null));
  }

  private List<RecoveredProcess> recover(
      TreeOperation operation, Map<TrackedProcess, JournalEntry> members) {
    List<RecoveredProcess> recovered = new ArrayList<>();
    Map<ProcessOperation, ProcessState> states = new LinkedHashMap<>();
    for (Map.Entry<TrackedProcess, JournalEntry> each : members.entrySet()) {
      if (!journal.find(each.getKey().key).equals(Optional.of(each.getValue()))
          && each.getKey().identity.isAlive()) {
        throw new OperationInProgressException(
            "another controller has begun to work on process " + root.pid(),
            operation.failure(null, null));
      }
    }
    for (ProcessOperation each : operation.members()) {
      ProcessState state = state(each);
      if (state == null) {
        journal.remove(each.process().key);
        recovered.add(outcome(each, RecoveryOutcome.GONE, null));
      } else {
        states.put(each, state);
        each.process().foundIn(state);
      }
    }
    StateHandle suspended =
        Resumption.mayUnlock(states.values())
            ? null
            : StateHandle.next(operation.tree(), List.of());
    states.forEach((each, state) -> recovered.add(recover(each, state, suspended)));
    members.keySet().stream()
        .filter(each -> recovered.stream().noneMatch(m -> m.process().equals(each.identity)))
        .forEach(
            each -> recovered.add(new RecoveredProcess(each.identity, RecoveryOutcome.GONE, null)));
    return recovered;
  }

  /** Returns the state; null for a process without CUDA state, and for one that just exited. */
  private static @Nullable ProcessState state(ProcessOperation member) {
    try {
      return ProcessOperation.readTwice(member::readState);
    } catch (NoSuchProcessException | NotCudaProcessException e) {
      LOG.debug("process {} is not a member", member.pid(), e);
      return null;
    }
  }

  private RecoveredProcess recover(
      ProcessOperation member, ProcessState state, @Nullable StateHandle suspended) {
    Resumption.removeChanges(member.process(), state);
    return switch (state) {
      case RUNNING -> {
        member.process().forget();
        yield outcome(member, RecoveryOutcome.RUNNING, null);
      }
      case LOCKED -> suspended == null ? unlocked(member) : waiting(member, state, suspended);
      case CHECKPOINTED ->
          member.process().isPoisoned()
              ? outcome(member, RecoveryOutcome.POISONED, null)
              : waiting(member, state, suspended);
      case FAILED -> outcome(member, RecoveryOutcome.FAILED, null);
      default -> outcome(member, RecoveryOutcome.UNREACHABLE, null);
    };
  }

  private static RecoveredProcess waiting(
      ProcessOperation member, ProcessState state, @Nullable StateHandle suspended) {
    member.process().note(state.name().toLowerCase(Locale.ROOT), ProcessLock.Kind.MOVE);
    return outcome(member, RecoveryOutcome.SUSPENDED, suspended);
  }

  private static RecoveredProcess unlocked(ProcessOperation member) {
    try {
      member.unlock();
      member.process().forget();
      return outcome(member, RecoveryOutcome.UNLOCKED, null);
    } catch (NoSuchProcessException e) {
      member.process().forget();
      return outcome(member, RecoveryOutcome.GONE, null);
    } catch (GpuCheckpointException e) {
      LOG.warn("process {} cannot be recovered now: {}", member.pid(), e.getMessage());
      return outcome(member, RecoveryOutcome.UNREACHABLE, null);
    }
  }

  private static RecoveredProcess outcome(
      ProcessOperation member, RecoveryOutcome outcome, @Nullable StateHandle suspended) {
    return new RecoveredProcess(member.process().identity, outcome, suspended);
  }
}
