package dev.gpuprocess.internal.engine;

import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.error.OperationInProgressException;
import dev.gpuprocess.internal.call.BoundedCall;
import dev.gpuprocess.internal.lock.ProcessLock;
import dev.gpuprocess.progress.Step;
import java.util.List;
import java.util.Set;
import java.util.function.Function;

/**
 * What every state object holds: the process, its generation (older objects of the process are
 * stale), and the steps taken so far.
 */
public record StateHandle(TrackedProcess target, int generation, List<Step> steps) {

  /** The handle for the next state object of a process; older ones become stale. */
  public static StateHandle next(TrackedProcess target, List<Step> steps) {
    return new StateHandle(target, target.advance(), steps);
  }

  /** The body of a verb that leads away from running. */
  public interface Work {
    void run(List<Member> members);
  }

  /**
   * The body of a verb that leads back to running, from the state in which the processes were
   * found.
   */
  public interface Return {
    void run(List<Member> members, ProcessState found);
  }

  /**
   * Runs a verb that leads away from running. When it fails, or a listener throws an Error, the
   * process is brought back to where it was.
   *
   * @param next makes the object of the state that was reached
   */
  public <T> T move(
      String name, ProcessState from, ProcessState to, Work work, Function<StateHandle, T> next) {
    BoundedCall.requireCapacity(target.identity, name);
    return target.exclusively(
        name,
        ProcessLock.Kind.MOVE,
        generation,
        operation -> {
          StepRecorder measured = measured();
          List<Member> members = List.of(new Member(operation, measured));
          operation.require(from);
          target.note(name, ProcessLock.Kind.MOVE);
          try {
            work.run(members);
            measured.rethrow();
          } catch (RuntimeException | Error e) {
            new Undo(members).backTo(from, e);
            throw e;
          }
          return reached(measured, to, next);
        });
  }

  /**
   * Runs a verb that leads back to running, from the expected state or from where an earlier verb
   * of this handle failed. A listener cannot stop it.
   *
   * @param leftovers the other states to begin at
   */
  public <T> T bringBack(
      String name,
      ProcessState from,
      ProcessState to,
      Set<ProcessState> leftovers,
      Return work,
      Function<StateHandle, T> next) {
    return target.exclusively(
        name,
        ProcessLock.Kind.BRING_BACK,
        generation,
        operation -> {
          StepRecorder measured = measured();
          List<Member> members = List.of(new Member(operation, measured));
          ProcessState found = operation.requireOrLeftover(from, leftovers);
          target.note(name, ProcessLock.Kind.BRING_BACK);
          try {
            work.run(members, found);
            measured.rethrow();
          } catch (RuntimeException | Error e) {
            target.leaveAt(operation.stateNow());
            throw e;
          }
          return reached(measured, to, next);
        });
  }

  public StepRecorder measured() {
    return new StepRecorder(target.context.listener(), target.pid(), steps);
  }

  private <T> T reached(StepRecorder measured, ProcessState state, Function<StateHandle, T> next) {
    T reached = next.apply(next(target, measured.taken()));
    target.leaveAt(state);
    return reached;
  }

  /**
   * Kills the process if it is still in this state. Does nothing when it has ended.
   *
   * @throws dev.gpuprocess.error.StaleStateException when it is in another
   */
  public void end(ProcessState expected) {
    try {
      int unused =
          target.exclusively(
              "end",
              ProcessLock.Kind.MOVE,
              generation,
              operation -> {
                operation.require(expected);
                target.end();
                return target.advance();
              });
    } catch (NoSuchProcessException e) {
      target.forget();
    }
  }

  /**
   * Brings the process back unless the state object was handed on. Does nothing when the process
   * has ended.
   */
  public void close(Runnable undo) {
    if (!target.isCurrent(generation)) {
      return;
    }
    try {
      undo.run();
    } catch (NoSuchProcessException e) {
      int unused = target.advance();
    } catch (OperationInProgressException e) {
      if (ProcessLock.wantBack(target.key)) {
        throw e;
      }
      undo.run();
    }
  }
}
