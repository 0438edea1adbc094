package dev.gpuprocess;

import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.internal.engine.GpuMemoryLostException;
import dev.gpuprocess.internal.engine.StateHandle;
import dev.gpuprocess.process.ProcessIdentity;
import dev.gpuprocess.progress.Step;
import java.util.List;
import java.util.Locale;
import java.util.function.Supplier;

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

  /**
   * Runs a verb that may restore to the GPU. What it poisoned is handed to the user as what is left
   * of the process.
   */
  final <T> T orPoisoned(Supplier<T> verb) {
    try {
      return verb.get();
    } catch (GpuMemoryLostException e) {
      throw poisoned(e);
    } catch (RuntimeException e) {
      for (Throwable suppressed : e.getSuppressed()) {
        if (suppressed instanceof GpuMemoryLostException lost) {
          e.addSuppressed(poisoned(lost));
        }
      }
      throw e;
    }
  }

  private PoisonedProcessException poisoned(GpuMemoryLostException e) {
    StateHandle left = StateHandle.next(self.job(), List.of());
    return new PoisonedProcessException(e, new PoisonedProcess(left));
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
