package dev.gpuprocess;

import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.error.OperationInProgressException;
import java.util.List;
import java.util.Set;
import java.util.function.Function;

/**
 * What all state objects are made of: the process, their place in its line, and how it got there.
 */
record StateObject(Target target, int generation, List<Step> steps) {

  /** The newest state object of a process; those before it are stale from now on. */
  static StateObject next(Target target, List<Step> steps) {
    return new StateObject(target, target.advance(), steps);
  }

  /** What a verb does, measuring its steps. */
  interface Work {
    void run(Verb verb, Steps steps);
  }

  /** What a verb does to bring a process back that was found in a state. */
  interface WayBack {
    void run(Verb verb, Steps steps, ProcessState found);
  }

  /**
   * Runs a verb that leads from one state to the next away from running. When it fails, or the
   * listener does, the process is brought back to where it was.
   *
   * @param next makes the object of the state that was reached
   */
  <T extends GpuProcess> T move(
      String name, ProcessState from, Work work, Function<StateObject, T> next) {
    BoundedCall.admit(target.identity, name);
    return target.exclusively(
        name,
        Turn.Kind.MOVE,
        generation,
        verb -> {
          Steps measured = measured();
          verb.require(from);
          target.note(name, Turn.Kind.MOVE);
          try {
            work.run(verb, measured);
            measured.rethrow();
          } catch (RuntimeException | Error e) {
            new Undo(verb, target, measured).backTo(from, e);
            throw e;
          }
          return reached(measured, next);
        });
  }

  /**
   * Runs a verb that leads nearer to running, from a state or from where a verb of this line left
   * the process that failed. It goes on whatever the listener does.
   *
   * @param leftovers the other states to begin at
   */
  <T extends GpuProcess> T bringBack(
      String name,
      ProcessState from,
      Set<ProcessState> leftovers,
      WayBack work,
      Function<StateObject, T> next) {
    return target.exclusively(
        name,
        Turn.Kind.BRING_BACK,
        generation,
        verb -> {
          Steps measured = measured();
          ProcessState found = verb.requireOrLeftover(from, leftovers);
          target.note(name, Turn.Kind.BRING_BACK);
          try {
            work.run(verb, measured, found);
            measured.rethrow();
          } catch (RuntimeException | Error e) {
            target.leaveAt(verb.stateNow());
            throw e;
          }
          return reached(measured, next);
        });
  }

  Steps measured() {
    return new Steps(target.checkpoints.listener(), target.pid(), steps);
  }

  private <T extends GpuProcess> T reached(Steps measured, Function<StateObject, T> next) {
    T reached = next.apply(next(target, measured.taken()));
    target.leaveAt(reached.state());
    return reached;
  }

  /**
   * Ends the process if it is in this state still; one that has ended is as it should be.
   *
   * @throws dev.gpuprocess.error.StaleStateException when it is in another
   */
  void end(ProcessState expected) {
    try {
      int unused =
          target.exclusively(
              "end",
              Turn.Kind.MOVE,
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
  void close(Runnable undo) {
    if (!target.isCurrent(generation)) {
      return;
    }
    try {
      undo.run();
    } catch (NoSuchProcessException e) {
      int unused = target.advance();
    } catch (OperationInProgressException e) {
      if (Turn.wantBack(target.key)) {
        throw e;
      }
      undo.run();
    }
  }
}
