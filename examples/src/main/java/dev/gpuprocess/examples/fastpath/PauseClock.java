package dev.gpuprocess.examples.fastpath;

import dev.gpuprocess.progress.Step;
import dev.gpuprocess.progress.StepListener;
import java.util.concurrent.atomic.AtomicLong;

/** How long a process could not use the GPU: from the first lock to the end of the last unlock. */
final class PauseClock implements StepListener {

  private final AtomicLong locked = new AtomicLong();
  private final AtomicLong unlocked = new AtomicLong();

  @Override
  public void started(String name, int pid) {
    if (name.equals("lock")) {
      locked.compareAndSet(0, System.nanoTime());
    }
  }

  @Override
  public void finished(Step step) {
    if (step.name().equals("unlock")) {
      unlocked.set(System.nanoTime());
    }
  }

  /** In seconds. */
  double seconds() {
    if (locked.get() == 0 || unlocked.get() == 0) {
      throw new IllegalStateException("the process was not locked and unlocked");
    }
    return (unlocked.get() - locked.get()) / 1e9;
  }
}
