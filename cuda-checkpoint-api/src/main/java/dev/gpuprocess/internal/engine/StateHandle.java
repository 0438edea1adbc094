package dev.gpuprocess.internal.engine;

import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.error.OperationInProgressException;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.internal.call.BoundedCall;
import dev.gpuprocess.internal.call.Stop;
import dev.gpuprocess.internal.state.ProcessLock;
import dev.gpuprocess.internal.time.Durations;
import dev.gpuprocess.options.SuspendOptions;
import dev.gpuprocess.report.Step;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.function.Consumer;
import java.util.function.Function;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The content of every state object: the process tree, the generation of the object (older objects
 * are stale), and the steps that led to the state.
 */
public record StateHandle(TrackedTree tree, int generation, List<Step> steps) {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  /** Creates the handle for the next state object of a process; older objects become stale. */
  public static StateHandle next(TrackedTree tree, List<Step> steps) {
    return new StateHandle(tree, tree.advance(), steps);
  }

  /** Locks a running process; see {@link Suspension#lock}. */
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

  /** Takes a running process off its GPUs; see {@link Suspension#suspend}. */
  public <T> T suspend(SuspendOptions options, Function<StateHandle, T> next) {
    Duration timeout = options.lockTimeout().orElse(tree.context.timeouts().lock());
    try (Stop stop = Suspension.stop(tree, "suspend", options.cancellation(), options.deadline())) {
      return move(
          "suspend",
          ProcessState.RUNNING,
          ProcessState.CHECKPOINTED,
          operation -> {
            label(operation, options);
            Suspension.suspend(operation, timeout, stop);
            label(operation, options); // members that were found late, too
          },
          next);
    }
  }

  private static void label(TreeOperation operation, SuspendOptions options) {
    options
        .label()
        .ifPresent(
            label -> operation.members().forEach(member -> member.process().setLabel(label)));
  }

  /**
   * Runs a verb that leads away from running. If it fails, or a listener throws an Error, the
   * members are rolled back to the state in which it began.
   *
   * @param work the steps; may add members
   * @param next creates the object of the state that was reached
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
            Resumption.rollBack(operation.members(), from, e);
            VerbOutcome.addMembers(operation, e);
            throw e;
          }
          return reached(measured, operation, to, next);
        });
  }

  /**
   * Runs a verb that leads back to running, from the expected state or from the state where an
   * earlier verb of this handle failed. If it fails, members that it brought back stay there. A
   * listener cannot stop it.
   *
   * @param leftovers the other states in which it may begin
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
            operation.recordStates();
            VerbOutcome.addMembers(operation, e);
            throw e;
          }
          return reached(measured, operation, to, next);
        });
  }

  private static void note(TreeOperation operation, String name, ProcessLock.Kind kind) {
    operation.members().forEach(each -> each.process().note(name, kind));
  }

  /** Returns a recorder that adds to the steps that led to this state. */
  public StepRecorder measured() {
    return measured(steps);
  }

  /** Returns a recorder for a verb that begins in a running process, without earlier steps. */
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
    operation.members().forEach(each -> each.process().setState(state));
    return reached;
  }

  /**
   * Kills the tree if a member is still in a state and cannot be brought back. Does nothing if the
   * tree has exited.
   *
   * @throws dev.gpuprocess.error.StaleStateException when no member is in that state
   * @throws OperationTimedOutException when a process of the tree does not exit
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
                tree.kill();
                return tree.advance();
              });
    } catch (NoSuchProcessException e) {
      LOG.debug("{} has ended", tree.name(), e);
    }
    tree.forget();
  }

  /**
   * Kills the tree, whatever its state, unless another controller has taken it. Waits for its locks
   * as a resume does. Does nothing if the tree has exited.
   *
   * @throws OperationInProgressException when another verb works on a member
   * @throws dev.gpuprocess.error.StaleStateException when another controller has moved a member,
   *     which is not running
   * @throws OperationTimedOutException when a process of the tree does not exit
   */
  public void discard() {
    // The lock of a member is held for a call of this JVM that has not returned.
    if (tree.members().stream().anyMatch(each -> BoundedCall.hangs(each.identity))) {
      tree.kill();
    } else {
      TreeOperation operation = TreeOperation.begin(tree, "end", ProcessLock.Kind.BRING_BACK);
      try {
        operation.members().forEach(ProcessOperation::requireNotTaken);
        tree.kill();
      } finally {
        ResumeOnExit.settle(operation);
        operation.releaseLocks();
      }
    }
    int unused = tree.advance();
    tree.forget();
  }

  private static void requireLost(TreeOperation operation, ProcessState expected) {
    List<ProcessOperation> lost =
        operation.members().stream().filter(each -> each.process().isLost()).toList();
    (lost.isEmpty() ? operation.members() : lost).forEach(each -> each.require(expected));
  }

  /**
   * Brings the members back to running, unless a verb has been used on the state object. Does
   * nothing if they have exited.
   */
  public void close(Runnable resume) {
    if (!tree.isCurrent(generation)) {
      return;
    }
    try {
      resume.run();
    } catch (NoSuchProcessException e) {
      int unused = tree.advance();
    } catch (OperationInProgressException e) {
      // Several members are resumed together, never one alone by the holder of its lock.
      if (!tree.isSingle() || ProcessLock.requestResume(tree.key(), this::requireNotMovedBefore)) {
        throw e;
      }
      resume.run();
    }
  }

  /** Checks that the verb under way began where this tree knows the process to be. */
  private void requireNotMovedBefore(ProcessLock verb) {
    TrackedProcess member = tree.members().get(0);
    // The move of the verb itself is known if it is a verb of this tree.
    if (member.isMovedSince(verb.moveBefore()) && member.isMovedSince(verb.lastMove())) {
      throw ProcessOperation.movedByOthers(member, Failure.of("close", member.pid()));
    }
  }
}
