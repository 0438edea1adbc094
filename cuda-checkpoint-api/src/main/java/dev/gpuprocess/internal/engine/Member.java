package dev.gpuprocess.internal.engine;

import dev.gpuprocess.internal.call.Stop;
import java.util.List;
import java.util.function.Consumer;

/**
 * One of the processes that a verb works on.
 *
 * @param operation its driver calls
 * @param steps where its steps are measured and told
 */
public record Member(DriverOperation operation, StepRecorder steps) {

  public TrackedProcess target() {
    return operation.target();
  }

  /** Runs a step on all members at the same time. */
  static void all(List<Member> members, Consumer<Member> step) {
    Together.run(bodies(members, step));
  }

  /** Runs a step on all members at the same time, which an interrupt asks to end. */
  static void all(List<Member> members, Consumer<Member> step, Stop stop) {
    Together.run(bodies(members, step), stop::awaitDone);
  }

  private static List<Runnable> bodies(List<Member> members, Consumer<Member> step) {
    return members.stream().<Runnable>map(each -> () -> step.accept(each)).toList();
  }
}
