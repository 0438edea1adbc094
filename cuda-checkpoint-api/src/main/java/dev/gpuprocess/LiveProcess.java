package dev.gpuprocess;

import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.internal.engine.StateHandle;
import dev.gpuprocess.process.ProcessIdentity;
import dev.gpuprocess.progress.Step;
import java.util.List;
import java.util.Locale;

/** What the objects of all states have in common. */
abstract class LiveProcess {

  final StateHandle self;
  private final ProcessState state;

  LiveProcess(StateHandle self, ProcessState state) {
    this.self = self;
    this.state = state;
  }

  /**
   * Which process this is.
   *
   * @return pid and start time
   */
  public final ProcessIdentity identity() {
    return self.target().identity;
  }

  /**
   * The state this object stands for. The process itself may have moved on.
   *
   * @return the state that the driver gives such a process
   */
  public final ProcessState state() {
    return state;
  }

  /**
   * What was done to get here since the process was taken, oldest first.
   *
   * @return the steps with their durations and bytes
   */
  public final List<Step> steps() {
    return self.steps();
  }

  /** How the state is called in a sentence. */
  String condition() {
    return state.name().toLowerCase(Locale.ROOT);
  }

  @Override
  public final String toString() {
    return "process " + identity().pid() + ", " + condition();
  }
}
