package dev.gpuprocess;

import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.error.OperationInProgressException;
import java.util.List;
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

  /**
   * Runs a verb that leads from one state to the next away from running.
   *
   * @param next makes the object of the state that was reached
   */
  <T extends GpuProcess> T move(
      String name, ProcessState from, Work work, Function<StateObject, T> next) {
    return move(name, Turn.Kind.MOVE, from, work, next);
  }

  /** The same for one that leads nearer to running. */
  <T extends GpuProcess> T bringBack(
      String name, ProcessState from, Work work, Function<StateObject, T> next) {
    return move(name, Turn.Kind.BRING_BACK, from, work, next);
  }

  private <T extends GpuProcess> T move(
      String name, Turn.Kind kind, ProcessState from, Work work, Function<StateObject, T> next) {
    return target.exclusively(
        name,
        kind,
        generation,
        verb -> {
          Steps measured = new Steps(target.checkpoints.listener(), target.pid(), steps);
          verb.require(from);
          target.note(name, kind);
          try {
            work.run(verb, measured);
          } catch (RuntimeException e) {
            target.noteState(verb.stateNow());
            throw e;
          }
          T reached = next.apply(next(target, measured.taken()));
          target.noteState(reached.state());
          return reached;
        });
  }

  /**
   * Ends the process if it is in this state still; one that has ended is as it should be.
   *
   * @throws dev.gpuprocess.error.StaleStateException when it is in another
   */
  void end(ProcessState expected) {
    try {
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
      target.advance();
    } catch (OperationInProgressException e) {
      if (Turn.wantBack(target.identity)) {
        throw e;
      }
      undo.run();
    }
  }
}
