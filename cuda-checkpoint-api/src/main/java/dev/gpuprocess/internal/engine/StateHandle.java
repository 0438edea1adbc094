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
 * What all state objects are made of: the process, their place in its line, and how it got there.
 */
public record StateHandle(TrackedProcess target, int generation, List<Step> steps) {

  /** The newest state object of a process; those before it are stale from now on. */
  public static StateHandle next(TrackedProcess target, List<Step> steps) {
    return new StateHandle(target, target.advance(), steps);
  }

  /** What a verb does, measuring its steps. */
  public interface Work {
    void run(List<Member> members);
  }

  /** What a verb does to bring a process back that was found in a state. */
  public interface Return {
    void run(List<Member> members, ProcessState found);
  }

  /**
   * Runs a verb that leads from one state to the next away from running. When it fails, or the
   * listener does, the process is brought back to where it was.
   *
   * @param next makes the object of the state that was reached
   */
  public <T> T move(
      String name, ProcessState from, ProcessState to, Work work, Function<StateHandle, T> next) {
    BoundedCall.admit(target.identity, name);
    return target.exclusively(
        name,
        ProcessLock.Kind.MOVE,
        generation,
        verb -> {
          StepRecorder measured = measured();
          List<Member> members = List.of(new Member(verb, measured));
          verb.require(from);
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
   * Runs a verb that leads nearer to running, from a state or from where a verb of this line left
   * the process that failed. It goes on whatever the listener does.
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
        verb -> {
          StepRecorder measured = measured();
          List<Member> members = List.of(new Member(verb, measured));
          ProcessState found = verb.requireOrLeftover(from, leftovers);
          target.note(name, ProcessLock.Kind.BRING_BACK);
          try {
            work.run(members, found);
            measured.rethrow();
          } catch (RuntimeException | Error e) {
            target.leaveAt(verb.stateNow());
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
   * Ends the process if it is in this state still; one that has ended is as it should be.
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
              verb -> {
                verb.require(expected);
                target.end();
                return target.advance();
              });
    } catch (NoSuchProcessException e) {
      target.forget();
    }
  }

  /**
   * Undoes what a try block did not hand on; nothing is left to undo for a process that is gone.
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
