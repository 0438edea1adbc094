package dev.gpuprocess.internal.engine;

import dev.gpuprocess.cuda.CudaAnswer;
import dev.gpuprocess.cuda.CudaResult;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.FixAndRetryException;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.internal.linux.Descriptors;
import dev.gpuprocess.internal.linux.ProcessKey;
import dev.gpuprocess.internal.proc.ProcessUnreadableException;
import dev.gpuprocess.internal.state.ProcessLock;
import dev.gpuprocess.internal.time.Deadline;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One verb at work on all members of a tree, a {@link ProcessOperation} for each, under their
 * locks. The locks are taken in one order in every tree, so that controllers of overlapping trees
 * never deadlock. For one thread.
 */
public final class TreeOperation {

  /** The order of the names of locks. */
  private static final Comparator<ProcessKey> ORDER =
      Comparator.comparingLong(ProcessKey::namespace).thenComparingInt(ProcessKey::pid);

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  /** The number of files that a verb may have open at the same time. */
  private static final int DESCRIPTORS = 32;

  /** The number of files that a verb may have open for each member in addition. */
  private static final int DESCRIPTORS_OF_MEMBER = 8;

  private final TrackedTree tree;
  private final String verb;
  private final ProcessLock.Kind kind;
  private final List<ProcessOperation> members = new ArrayList<>();

  /** The lock of a root that is not a member; null if the root is a member. */
  private @Nullable ProcessLock rootLock;

  private final long began = System.nanoTime();
  private @Nullable StepRecorder steps;

  private TreeOperation(TrackedTree tree, String verb, ProcessLock.Kind kind) {
    this.tree = tree;
    this.verb = verb;
    this.kind = kind;
  }

  /**
   * Takes all locks, or none.
   *
   * @throws dev.gpuprocess.error.OperationInProgressException when another verb works on one of the
   *     members; a verb that leads back to running waits for all of them within one deadline
   */
  static TreeOperation begin(TrackedTree tree, String verb, ProcessLock.Kind kind) {
    TreeOperation operation = new TreeOperation(tree, verb, kind);
    Map<ProcessKey, TrackedProcess> inOrder = new TreeMap<>(ORDER);
    tree.members().forEach(each -> inOrder.put(each.key, each));
    Set<ProcessKey> all = new HashSet<>(inOrder.keySet());
    all.add(tree.key());
    Deadline deadline = Deadline.after(tree.context.timeouts().call());
    try {
      for (ProcessKey each : all.stream().sorted(ORDER).toList()) {
        operation.take(each, inOrder.get(each), deadline);
      }
      return operation;
    } catch (RuntimeException | Error e) {
      operation.releaseLocks();
      throw e;
    }
  }

  private void take(ProcessKey key, @Nullable TrackedProcess member, Deadline deadline) {
    ProcessLock lock =
        ProcessLock.take(
            key,
            member == null ? tree.root.pid() : member.pid(),
            verb,
            kind,
            tree.context.state(),
            deadline.remaining());
    if (member == null) {
      rootLock = lock;
    } else {
      if (tree.isSingle()) {
        lock.willBringBack();
      }
      add(member, lock);
    }
  }

  private void add(TrackedProcess member, ProcessLock lock) {
    ProcessOperation operation = new ProcessOperation(member, verb, lock, tree);
    if (steps != null) {
      operation.measuredBy(steps.of(member.pid()));
    }
    members.add(operation);
  }

  String verb() {
    return verb;
  }

  public TrackedTree tree() {
    return tree;
  }

  /** Measures its steps with a recorder from now on. */
  public void measuredBy(StepRecorder recorder) {
    steps = recorder;
    members.forEach(each -> each.measuredBy(recorder.of(each.pid())));
  }

  /** Returns the verb on each of the present members. */
  public List<ProcessOperation> members() {
    return List.copyOf(members);
  }

  /** Throws an Error that a listener threw. Called where the members may stay as they are. */
  public void rethrow() {
    Objects.requireNonNull(steps, "steps").rethrow();
  }

  /**
   * Adds a member that was found late, without waiting for its lock.
   *
   * @throws dev.gpuprocess.error.OperationInProgressException when another verb works on it
   */
  public void add(TrackedProcess member) {
    ProcessLock root = rootLock;
    if (root != null && member.key.equals(tree.key())) {
      // The root has become a CUDA process.
      rootLock = null;
      add(member, root);
    } else {
      take(member.key, member, Deadline.after(Duration.ZERO));
    }
    tree.add(member);
  }

  /**
   * Checks that driver calls on all members return, and drops members that have exited.
   *
   * @throws NoSuchProcessException when no member is left
   * @throws dev.gpuprocess.error.FixAndRetryException with reason PROCESS_STOPPED when one is
   *     stopped, traced or frozen
   */
  void requireReachable() {
    withEach(
        each -> {
          each.process().requireReachable(verb);
          each.process().readJournal();
        });
  }

  /** Runs a check on each member, and drops a member that has exited at whatever moment. */
  private void withEach(Consumer<ProcessOperation> check) {
    NoSuchProcessException ended =
        new NoSuchProcessException(
            "process %s has ended".formatted(tree.root.pid()), Failure.of(verb, tree.root.pid()));
    for (ProcessOperation each : List.copyOf(members)) {
      try {
        check.accept(each);
      } catch (NoSuchProcessException e) {
        drop(each);
        ended = e;
      }
    }
    if (members.isEmpty() && !tree.root.isAlive()) {
      throw ended;
    }
  }

  /** Drops members that have exited. */
  void removeExited() {
    for (ProcessOperation each : List.copyOf(members)) {
      if (!each.isAbandoned() && each.process().isGone()) {
        drop(each);
      }
    }
  }

  private void drop(ProcessOperation ended) {
    members.remove(ended);
    tree.remove(ended.process());
    ended.process().forget();
    if (ended.process().key.equals(tree.key())) {
      rootLock = ended.lock().orElse(null);
    } else {
      ended.releaseLock();
    }
  }

  /**
   * Releases all locks. If a call on a member was abandoned, the lock of the member is released
   * when the call returns.
   */
  void releaseLocks() {
    releaseLocks(members.iterator());
  }

  /** Releases each lock, also if the release of another one throws. */
  private void releaseLocks(Iterator<ProcessOperation> left) {
    if (left.hasNext()) {
      try {
        left.next().releaseLock();
      } finally {
        releaseLocks(left);
      }
    } else if (rootLock != null) {
      rootLock.release();
    }
  }

  /** Runs a dump. Other controllers do not read the states of the members until it has ended. */
  public void atCriu(Runnable body) {
    mark(true);
    try {
      body.run();
    } finally {
      mark(false);
    }
  }

  private void mark(boolean atCriu) {
    if (rootLock != null) {
      rootLock.atCriu(atCriu);
    }
    members.forEach(each -> each.lock().ifPresent(lock -> lock.atCriu(atCriu)));
  }

  /** Returns the data for an exception of this verb. */
  public Failure failure(@Nullable CudaResult result, @Nullable ProcessState after) {
    return new Failure(verb, tree.root.pid(), before(), after, elapsed(), result, null);
  }

  /** Returns how long the verb has taken. */
  Duration elapsed() {
    return Duration.ofNanos(System.nanoTime() - began);
  }

  /** Returns the common state in which the members were found; else null. */
  @Nullable ProcessState before() {
    return common(ProcessOperation::before);
  }

  /** Returns the common state of the members now; else null, or it cannot be read. */
  @Nullable ProcessState stateNow() {
    return common(ProcessOperation::stateIfAnswered);
  }

  /** Returns whether a call on a member was abandoned, and will be undone when it returns. */
  boolean isAbandoned() {
    return members.stream().anyMatch(each -> each.isAbandoned());
  }

  /** Returns whether a call that moves a member was begun. */
  boolean hasMoved() {
    return members.stream().anyMatch(each -> each.hasMoved());
  }

  private @Nullable ProcessState common(Function<ProcessOperation, @Nullable ProcessState> state) {
    Set<Optional<ProcessState>> all =
        members.stream()
            .map(each -> Optional.ofNullable(state.apply(each)))
            .collect(Collectors.toSet());
    return all.size() == 1 ? all.iterator().next().orElse(null) : null;
  }

  /** Returns whether a process is one of the present members. */
  public boolean isMember(int pid) {
    return members.stream().anyMatch(each -> each.pid() == pid);
  }

  /** Reads the state of a process that is not a member; empty if it has no state or has exited. */
  public Optional<ProcessState> stateOf(int other) {
    return ProcessIdentity.of(other).flatMap(process -> Optional.ofNullable(ask(process).value()));
  }

  /**
   * Returns whether the driver reports that a process that is not a member has no CUDA state.
   *
   * @param other a process that is neither stopped nor traced: the driver would not answer
   */
  public boolean hasNoCuda(ProcessIdentity other) {
    return ask(other).result().equals(CudaResult.NOT_INITIALIZED);
  }

  private CudaAnswer<ProcessState> ask(ProcessIdentity other) {
    return new StateQuery(tree.context, () -> failure(null, null)).ask(other);
  }

  /**
   * Checks that all members are in a state and were moved by no other controller, and that this JVM
   * can open the files that the verb and its rollback need.
   *
   * @throws FixAndRetryException with reason WRONG_STATE when the members were found in several
   *     states
   * @throws ProcessUnreadableException when this JVM has too many files open
   */
  public void require(ProcessState expected) {
    requireDescriptors();
    Set<ProcessState> known =
        members.stream()
            .flatMap(each -> Stream.ofNullable(each.process().lastKnown()))
            .collect(Collectors.toSet());
    if (known.size() > 1) {
      throw new FixAndRetryException(
          FixAndRetryException.Reason.WRONG_STATE,
          "%s is half way, with the members %s: bring it back first (%s, then unlock or resume)"
              .formatted(
                  tree.name(),
                  members.stream()
                      .map(each -> each.pid() + " " + each.process().lastKnown())
                      .collect(Collectors.joining(", ")),
                  tree.inspection()),
          failure(null, null));
    }
    withEach(each -> each.require(expected));
  }

  private void requireDescriptors() {
    int count = DESCRIPTORS + DESCRIPTORS_OF_MEMBER * members.size();
    try {
      Descriptors.requireFree(count);
    } catch (IOException e) {
      if (Descriptors.areUsedUp(e)) {
        throw new ProcessUnreadableException(
            "%s of %s did not begin, because this JVM cannot open %s more files: close some, or allow it more (ulimit -n)"
                .formatted(verb, tree.name(), count),
            failure(null, null),
            e);
      }
      LOG.debug("how many files this JVM can open is not known", e);
    }
  }

  /**
   * Checks that each member is in a state, or in one where an earlier verb of ours failed, and was
   * moved by no other controller.
   */
  void requireOrLeftover(ProcessState expected, Set<ProcessState> leftovers) {
    withEach(each -> each.requireOrLeftover(expected, leftovers));
  }

  /** Journals the state of each member, as far as it can be read. */
  public void noteStates() {
    members.forEach(each -> each.process().noteState(each.stateNow()));
  }

  /** Remembers and journals the state of each member, as far as that is known. */
  public void recordStates() {
    members.forEach(ProcessOperation::recordState);
  }

  /** Returns the root of the tree. */
  public ProcessIdentity root() {
    return tree.root;
  }
}
