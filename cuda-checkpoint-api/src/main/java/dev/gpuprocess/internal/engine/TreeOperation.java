package dev.gpuprocess.internal.engine;

import dev.gpuprocess.cuda.CudaAnswer;
import dev.gpuprocess.cuda.CudaResult;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.error.ProcessUnreadableException;
import dev.gpuprocess.error.WrongStateException;
import dev.gpuprocess.internal.linux.Descriptors;
import dev.gpuprocess.internal.linux.ProcessKey;
import dev.gpuprocess.internal.lock.ProcessLock;
import dev.gpuprocess.internal.time.Durations;
import dev.gpuprocess.process.ProcessIdentity;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashSet;
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
 * One verb at work on all members of a tree, each under its own lock. The locks are taken in one
 * order in every tree, so that controllers of overlapping trees never deadlock. For one thread.
 */
public final class TreeOperation {

  /** By what a lock is named. */
  private static final Comparator<ProcessKey> ORDER =
      Comparator.comparingLong(ProcessKey::namespace).thenComparingInt(ProcessKey::pid);

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  /** The number of files that a verb may have open at a time. */
  private static final int DESCRIPTORS = 32;

  /** The same for each member in addition. */
  private static final int DESCRIPTORS_OF_MEMBER = 8;

  private final TrackedTree tree;
  private final String name;
  private final ProcessLock.Kind kind;
  private final List<DriverOperation> operations = new ArrayList<>();

  /** Of a root that is no member, and must not be dumped or restored by others meanwhile. */
  private final List<ProcessLock> others = new ArrayList<>();

  private final long began = System.nanoTime();
  private @Nullable StepRecorder steps;

  private TreeOperation(TrackedTree tree, String name, ProcessLock.Kind kind) {
    this.tree = tree;
    this.name = name;
    this.kind = kind;
  }

  /**
   * Takes all locks, or none.
   *
   * @throws dev.gpuprocess.error.OperationInProgressException when another verb works on one of the
   *     processes; one that leads back to running waits for all of them within one deadline
   */
  static TreeOperation begin(TrackedTree tree, String name, ProcessLock.Kind kind) {
    TreeOperation operation = new TreeOperation(tree, name, kind);
    Map<ProcessKey, TrackedProcess> inOrder = new TreeMap<>(ORDER);
    tree.members().forEach(each -> inOrder.put(each.key, each));
    Set<ProcessKey> all = new HashSet<>(inOrder.keySet());
    all.add(tree.key());
    long end = Durations.end(tree.context.timeouts().call());
    try {
      for (ProcessKey each : all.stream().sorted(ORDER).toList()) {
        operation.take(each, inOrder.get(each), end);
      }
      return operation;
    } catch (RuntimeException | Error e) {
      operation.releaseLocks();
      throw e;
    }
  }

  private void take(ProcessKey key, @Nullable TrackedProcess member, long end) {
    ProcessLock lock =
        ProcessLock.take(
            key,
            member == null ? tree.root.pid() : member.pid(),
            name,
            kind,
            tree.context.state(),
            Durations.remaining(end));
    if (member == null) {
      others.add(lock);
    } else {
      if (tree.isSingle()) {
        lock.willBringBack();
      }
      operations.add(new DriverOperation(member, name, lock));
    }
  }

  /** The verb. */
  String name() {
    return name;
  }

  public TrackedTree tree() {
    return tree;
  }

  /** Its steps are measured there from now on. */
  public void measuredBy(StepRecorder recorder) {
    steps = recorder;
  }

  /** All members of now. */
  public List<Member> members() {
    StepRecorder recorder = Objects.requireNonNull(steps, "steps");
    return operations.stream().map(each -> new Member(each, recorder.of(each.pid()))).toList();
  }

  /** Throws what a listener threw, where the members may stay as they are. */
  public void rethrow() {
    Objects.requireNonNull(steps, "steps").rethrow();
  }

  /** The verb on each member. */
  public List<DriverOperation> each() {
    return List.copyOf(operations);
  }

  /**
   * Takes in a process that was found late. It is not waited for.
   *
   * @throws dev.gpuprocess.error.OperationInProgressException when another verb works on it
   */
  public void add(TrackedProcess newcomer) {
    for (ProcessLock lock : others) {
      if (newcomer.key.equals(tree.key())) {
        // The root has become a CUDA process.
        others.remove(lock);
        operations.add(new DriverOperation(newcomer, name, lock));
        tree.add(newcomer);
        return;
      }
    }
    take(newcomer.key, newcomer, Durations.end(Duration.ZERO));
    tree.add(newcomer);
  }

  /**
   * Checks that the driver can be asked about all members. Members that have ended are forgotten.
   *
   * @throws NoSuchProcessException when nothing is left
   * @throws dev.gpuprocess.error.ProcessStoppedException when one is stopped, traced or frozen
   */
  void requireReachable() {
    withEach(
        each -> {
          ReachabilityCheck.require(each.target(), name);
          each.target().adoptHeld();
        });
  }

  /** Looks at each member. A member that has ended, at whatever moment, is forgotten. */
  private void withEach(Consumer<DriverOperation> look) {
    NoSuchProcessException ended =
        new NoSuchProcessException(
            "process %s has ended".formatted(tree.root.pid()), Failure.of(name, tree.root.pid()));
    for (DriverOperation each : List.copyOf(operations)) {
      try {
        look.accept(each);
      } catch (NoSuchProcessException e) {
        drop(each);
        ended = e;
      }
    }
    if (operations.isEmpty() && !tree.root.isAlive()) {
      throw ended;
    }
  }

  /** Forgets members that have ended. */
  void dropTheDead() {
    for (DriverOperation each : List.copyOf(operations)) {
      if (!each.calls().isAbandoned() && each.target().isGone()) {
        drop(each);
      }
    }
  }

  private void drop(DriverOperation ended) {
    operations.remove(ended);
    tree.remove(ended.target());
    ended.target().forget();
    if (ended.target().key.equals(tree.key())) {
      ended.lock().ifPresent(others::add);
    } else {
      ended.releaseLock();
    }
  }

  /**
   * Releases all locks. That of a member on which an abandoned call is out is released when the
   * call returns.
   */
  void releaseLocks() {
    operations.forEach(DriverOperation::releaseLock);
    others.forEach(ProcessLock::release);
  }

  /** Runs a dump. Readers keep away from the members until it has ended. */
  public void atCriu(Runnable body) {
    mark(true);
    try {
      body.run();
    } finally {
      mark(false);
    }
  }

  private void mark(boolean atCriu) {
    others.forEach(each -> each.atCriu(atCriu));
    operations.forEach(each -> each.lock().ifPresent(lock -> lock.atCriu(atCriu)));
  }

  /** The data for an exception of this verb. */
  public Failure failure(@Nullable CudaResult result, @Nullable ProcessState after) {
    return new Failure(name, tree.root.pid(), before(), after, elapsed(), result, null);
  }

  /** How long the verb has taken. */
  Duration elapsed() {
    return Duration.ofNanos(System.nanoTime() - began);
  }

  /** The state in which all members were found; null when it was not read, or is not one. */
  @Nullable ProcessState before() {
    return common(DriverOperation::before);
  }

  /** The state of all members now; null when it cannot be read, or is not one. */
  @Nullable ProcessState stateNow() {
    return common(DriverOperation::stateIfAnswered);
  }

  /** Whether a call on a member is out that will be undone when it returns. */
  boolean isAbandoned() {
    return operations.stream().anyMatch(each -> each.calls().isAbandoned());
  }

  /** Whether a call that moves a member was begun. */
  boolean hasMoved() {
    return operations.stream().anyMatch(each -> each.calls().hasMoved());
  }

  private @Nullable ProcessState common(Function<DriverOperation, @Nullable ProcessState> state) {
    Set<Optional<ProcessState>> all =
        operations.stream()
            .map(each -> Optional.ofNullable(state.apply(each)))
            .collect(Collectors.toSet());
    return all.size() == 1 ? all.iterator().next().orElse(null) : null;
  }

  /** Whether a process is one of the members of now. */
  public boolean isMember(int pid) {
    return operations.stream().anyMatch(each -> each.pid() == pid);
  }

  /** Reads the state of a process that is no member; empty when it has none or is gone. */
  public Optional<ProcessState> stateOf(int other) {
    return ProcessIdentity.of(other).flatMap(process -> Optional.ofNullable(ask(process).value()));
  }

  /**
   * Whether the driver says that a process that is no member has no CUDA state.
   *
   * @param other neither stopped nor traced: the driver would not answer
   */
  public boolean hasNoCuda(ProcessIdentity other) {
    return ask(other).result().equals(CudaResult.NOT_INITIALIZED);
  }

  private CudaAnswer<ProcessState> ask(ProcessIdentity other) {
    return new StateQuery(tree.context, () -> failure(null, null)).ask(other);
  }

  /**
   * Makes sure that all members are in a state, nobody else moved them, and this JVM can open the
   * files that it takes to move them and to bring them back.
   *
   * @throws WrongStateException when the members were found in several states
   * @throws ProcessUnreadableException when this JVM has too many files open
   */
  public void require(ProcessState expected) {
    requireDescriptors();
    Set<ProcessState> known =
        operations.stream()
            .flatMap(each -> Stream.ofNullable(each.target().lastKnown()))
            .collect(Collectors.toSet());
    if (known.size() > 1) {
      throw new WrongStateException(
          "%s is half way, with the members %s: bring it back first (%s, then unlock or resume)"
              .formatted(
                  tree.name(),
                  operations.stream()
                      .map(each -> each.pid() + " " + each.target().lastKnown())
                      .collect(Collectors.joining(", ")),
                  tree.inspection()),
          failure(null, null));
    }
    withEach(each -> each.require(expected));
  }

  private void requireDescriptors() {
    int count = DESCRIPTORS + DESCRIPTORS_OF_MEMBER * operations.size();
    try {
      Descriptors.requireFree(count);
    } catch (IOException e) {
      if (Descriptors.areUsedUp(e)) {
        throw new ProcessUnreadableException(
            "%s of %s did not begin, because this JVM cannot open %s more files: close some, or allow it more (ulimit -n)"
                .formatted(name, tree.name(), count),
            failure(null, null),
            e);
      }
      LOG.debug("how many files this JVM can open is not known", e);
    }
  }

  /**
   * Makes sure that each member is in a state, or where an earlier verb of ours failed, and nobody
   * else moved it.
   */
  void requireOrLeftover(ProcessState expected, Set<ProcessState> leftovers) {
    withEach(
        each -> {
          ProcessState unused = each.requireOrLeftover(expected, leftovers);
        });
  }

  /** Journals the state of each member, as far as it can be read. */
  public void noteStates() {
    operations.forEach(each -> each.target().noteState(each.stateNow()));
  }

  /** Journals where each member was left, as far as it can be read. */
  public void leaveWhereTheyAre() {
    operations.forEach(each -> each.target().leaveAt(each.stateNow()));
  }

  /** The root of the tree that is dumped. */
  public ProcessIdentity root() {
    return tree.root;
  }
}
