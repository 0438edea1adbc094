package dev.gpuprocess.internal.engine;

import java.util.List;
import java.util.function.Consumer;

/**
 * One process that a verb works on: a verb works on a list of them, which is one process today.
 *
 * @param operation its driver calls
 * @param steps where its steps are measured and told
 */
public record Member(DriverOperation operation, StepRecorder steps) {

  TrackedProcess target() {
    return operation.target();
  }

  /** Runs a step of a verb on all of them at once. */
  static void all(List<Member> members, Consumer<Member> step) {
    Together.run(members.stream().<Runnable>map(each -> () -> step.accept(each)).toList());
  }
}
