package dev.gpuprocess.internal.engine;

import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.error.OperationInProgressException;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.internal.call.BoundedCall;
import dev.gpuprocess.internal.call.Stop;
import dev.gpuprocess.internal.linux.ProcessTree;
import dev.gpuprocess.internal.lock.ProcessLock;
import dev.gpuprocess.internal.time.Durations;
import dev.gpuprocess.options.SuspendOptions;
import dev.gpuprocess.process.ProcessIdentity;
import dev.gpuprocess.progress.Step;
import java.time.Duration;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.function.Consumer;
import java.util.function.Function;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What every state object holds: the process tree, its generation (older objects are stale), and
 * the steps taken so far.
 */
public record StateHandle(TrackedTree tree, int generation, List<Step> steps) {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  /** The handle for the next state object of a process; older ones become stale. */
  public static StateHandle next(TrackedTree tree, List<Step> steps) {
    return new StateHandle(tree, tree.advance(), steps);
  }

  /** Locks running processes; see {@link Suspension#lock}. */
  public <T> T lock(Duration timeout, Function<StateHandle, T> next) {
    try (Stop stop = Suspension.stop(tree, "lock", Optional.empty(), Durations.LONGEST)) {
      return move(
          "lock",
          ProcessState.RUNNING,
          ProcessState.LOCKED,
          operation -> Suspension.lock(operation, timeout, stop),
          next);
    }
  }

  /** Takes running processes off their GPUs; see {@link Suspension#suspend}. */
  public <T> T suspend(SuspendOptions options, Function<StateHandle, T> next) {
    Duration timeout = options.lockTimeout().orElse(tree.context.timeouts().lock());
    try (Stop stop = Suspension.stop(tree, "suspend", options.cancellation(), options.deadline())) {
      return move(
          "suspend",
          ProcessState.RUNNING,
          ProcessState.CHECKPOINTED,
          operation -> Suspension.suspend(operation, timeout, stop),
          next);
    }
  }

  /**
   * Runs a verb that leads away from running. When it fails, or a listener throws an Error, the
   * members are brought back to where they were.
   *
   * @param work may take in more members
   * @param next makes the object of the state that was reached
   */
  public <T> T move(
      String name,
      ProcessState from,
      ProcessState to,
      Consumer<TreeOperation> work,
      Function<StateHandle, T> next) {
    tree.members().forEach(each -> BoundedCall.requireCapacity(each.identity, name));
    return tree.exclusively(
        name,
        ProcessLock.Kind.MOVE,
        generation,
        operation -> {
          StepRecorder measured = from == ProcessState.RUNNING ? measuredAnew() : measured();
          operation.measuredBy(measured);
          operation.require(from);
          ResumeOnExit.leaving(tree, name);
          try {
            note(operation, name, ProcessLock.Kind.MOVE);
            work.accept(operation);
            measured.rethrow();
          } catch (RuntimeException | Error e) {
            new Undo(operation.members()).backTo(from, e);
            TreeFailures.tell(operation, e);
            throw e;
          }
          return reached(measured, operation, to, next);
        });
  }

  /**
   * Runs a verb that leads back to running, from the expected state or from where an earlier verb
   * of this handle failed. What it has brought back stays so when it fails. A listener cannot stop
   * it.
   *
   * @param leftovers the other states to begin at
   */
  public <T> T bringBack(
      String name,
      ProcessState from,
      ProcessState to,
      Set<ProcessState> leftovers,
      Consumer<TreeOperation> work,
      Function<StateHandle, T> next) {
    return tree.exclusively(
        name,
        ProcessLock.Kind.BRING_BACK,
        generation,
        operation -> {
          StepRecorder measured = measured();
          operation.measuredBy(measured);
          operation.requireOrLeftover(from, leftovers);
          note(operation, name, ProcessLock.Kind.BRING_BACK);
          try {
            work.accept(operation);
            measured.rethrow();
          } catch (RuntimeException | Error e) {
            operation.leaveWhereTheyAre();
            TreeFailures.tell(operation, e);
            throw e;
          }
          return reached(measured, operation, to, next);
        });
  }

  private static void note(TreeOperation operation, String name, ProcessLock.Kind kind) {
    operation.each().forEach(each -> each.target().note(name, kind));
  }

  /** Adds to the steps that led to this state. */
  public StepRecorder measured() {
    return measured(steps);
  }

  /** For a verb that begins where the process runs: earlier steps are not of its series. */
  public StepRecorder measuredAnew() {
    return measured(List.of());
  }

  private StepRecorder measured(List<Step> before) {
    return new StepRecorder(tree.context.listener(), tree.root.pid(), before);
  }

  private <T> T reached(
      StepRecorder measured,
      TreeOperation operation,
      ProcessState state,
      Function<StateHandle, T> next) {
    T reached = next.apply(next(tree, measured.taken()));
    operation.each().forEach(each -> each.target().leaveAt(state));
    return reached;
  }

  /**
   * Kills the tree if a member is still in this state and cannot be brought back. Does nothing when
   * the tree has ended.
   *
   * @throws dev.gpuprocess.error.StaleStateException when no member is
   * @throws OperationTimedOutException when something of it does not end
   */
  public void end(ProcessState expected) {
    try {
      int unused =
          tree.exclusively(
              "end",
              ProcessLock.Kind.MOVE,
              generation,
              operation -> {
                requireLost(operation, expected);
                kill();
                return tree.advance();
              });
    } catch (NoSuchProcessException e) {
      LOG.debug("{} has ended", tree.name(), e);
    }
    tree.forget();
  }

  private static void requireLost(TreeOperation operation, ProcessState expected) {
    List<DriverOperation> lost =
        operation.each().stream().filter(each -> each.target().isLost()).toList();
    (lost.isEmpty() ? operation.each() : lost).forEach(each -> each.require(expected));
  }

  private void kill() {
    Set<ProcessIdentity> all = new LinkedHashSet<>();
    all.add(tree.root);
    tree.members().forEach(each -> all.add(each.identity));
    if (!ProcessTree.end(all, tree.context.timeouts().call())) {
      throw new OperationTimedOutException(
          "%s does not end: the kernel holds a process of it, see /proc/PID/stack of each"
              .formatted(tree.name()),
          Failure.of("end", tree.root.pid()));
    }
  }

  /**
   * Brings the members back unless the state object was handed on. Does nothing when they have
   * ended.
   */
  public void close(Runnable undo) {
    if (!tree.isCurrent(generation)) {
      return;
    }
    try {
      undo.run();
    } catch (NoSuchProcessException e) {
      int unused = tree.advance();
    } catch (OperationInProgressException e) {
      // Several members are resumed together, and never one alone by a verb on it.
      if (!tree.isSingle() || ProcessLock.wantBack(tree.key())) {
        throw e;
      }
      undo.run();
    }
  }
}
