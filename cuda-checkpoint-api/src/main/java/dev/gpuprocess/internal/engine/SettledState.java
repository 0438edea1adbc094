package dev.gpuprocess.internal.engine;

import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.OperationInProgressException;
import java.util.function.Function;
import java.util.function.Supplier;

/**
 * Reads the state of a process that must be running, and distinguishes a state that lasts from one
 * in the middle of a verb, which passes.
 */
public final class SettledState {

  /** Each further look means that a verb ended since the look before. */
  private static final int MOST_LOOKS = 10;

  private SettledState() {}

  /**
   * Looks once if the process is running, and otherwise until two looks agree and no verb is under
   * way between them.
   *
   * @param look reads the state
   * @param state the state that was read
   * @param job the processes that were looked at
   * @param verb for the exception
   * @return what was seen last
   * @throws OperationInProgressException when a verb is under way and the process is not running
   */
  public static <T> T look(
      Supplier<T> look,
      Function<T, ProcessState> state,
      Function<T, TrackedTree> job,
      String verb) {
    T seen = look.get();
    for (int looks = 1; looks < MOST_LOOKS; looks++) {
      if (state.apply(seen) == ProcessState.RUNNING) {
        return seen;
      }
      job.apply(seen).requireNoVerb(verb);
      T again = look.get();
      if (state.apply(again) == state.apply(seen)
          && job.apply(again).isWhereItWas(job.apply(seen))) {
        return again;
      }
      seen = again;
    }
    return seen;
  }
}
