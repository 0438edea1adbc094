package dev.gpuprocess.internal.engine;

import dev.gpuprocess.cuda.ProcessState;

/** Brings a process back to where it was before a verb that failed half way. */
final class Undo {

  private final DriverOperation verb;
  private final TrackedProcess target;
  private final StepRecorder steps;

  Undo(DriverOperation verb, TrackedProcess target, StepRecorder steps) {
    this.verb = verb;
    this.target = target;
    this.steps = steps;
  }

  /**
   * Undoes in reverse order what was done, as the state tells, and writes down what came of it. A
   * call that was left behind undoes everything itself when it returns.
   *
   * @param from where the verb began
   * @param why gets what goes wrong here
   */
  void backTo(ProcessState from, Throwable why) {
    try {
      ProcessState now = verb.stateNow();
      if (now == ProcessState.CHECKPOINTED && from != now) {
        steps.run("restore", 0, verb::undoCheckpoint);
        now = verb.stateNow();
      }
      if (now == ProcessState.LOCKED && from == ProcessState.RUNNING) {
        steps.run("unlock", 0, verb::unlock);
      }
    } catch (RuntimeException | Error e) {
      addTo(why, e);
    }
    target.leaveAt(verb.stateNow());
    try {
      steps.rethrow();
    } catch (RuntimeException | Error e) {
      addTo(why, e);
    }
  }

  private static void addTo(Throwable why, Throwable more) {
    if (more != why) {
      why.addSuppressed(more);
    }
  }
}
