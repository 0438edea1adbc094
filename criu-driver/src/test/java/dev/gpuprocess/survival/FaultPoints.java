package dev.gpuprocess.survival;

import dev.gpuprocess.report.Step;
import dev.gpuprocess.report.StepListener;
import java.util.ArrayList;
import java.util.List;

/**
 * The moments of a verb in the order in which they come: before and after each driver call, at the
 * beginning and end of each step, and at each of CRIU's stages. At one of them something can be
 * made to happen.
 */
final class FaultPoints implements StepListener {

  private final List<String> seen = new ArrayList<>();
  private int due = -1;
  private Runnable action = () -> {};

  /** Runs an action at the moment with this number, counted from 0. */
  synchronized FaultPoints at(int number, Runnable what) {
    due = number;
    action = what;
    return this;
  }

  /** Called on the thread of the moment. */
  void reached(String moment) {
    Runnable now = () -> {};
    synchronized (this) {
      if (seen.size() == due) {
        now = action;
      }
      seen.add(moment);
    }
    now.run();
  }

  synchronized List<String> seen() {
    return List.copyOf(seen);
  }

  @Override
  public void started(String name, int pid) {
    reached(name + " begins");
  }

  @Override
  public void finished(Step step) {
    reached(step.name() + " is done");
  }
}
