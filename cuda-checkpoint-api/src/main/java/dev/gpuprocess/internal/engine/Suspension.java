package dev.gpuprocess.internal.engine;

import dev.gpuprocess.internal.lock.ProcessLock;
import dev.gpuprocess.internal.room.Holdings;
import java.time.Duration;

/** The way off the GPU: lock, checkpoint. What fails half way is undone by the caller. */
public final class Suspension {

  private final DriverOperation operation;
  private final TrackedProcess target;
  private final StepRecorder steps;

  /** Nothing is done yet. */
  public Suspension(DriverOperation operation, TrackedProcess target, StepRecorder steps) {
    this.operation = operation;
    this.target = target;
    this.steps = steps;
  }

  /** Locks a running process. */
  public void lock(Duration timeout) {
    steps.run("lock", 0, () -> operation.lock(timeout));
  }

  /**
   * Checkpoints a locked process. What it holds is written down before: nobody could tell later.
   */
  public void checkpoint() {
    Holdings held = Holdings.of(target.pid(), target.context.inventory().read());
    target.nowHolds(held);
    target.note("checkpoint", ProcessLock.Kind.MOVE);
    steps.run("checkpoint", held.bytes(), operation::checkpoint);
  }

  /** Both, of a running process. */
  public void suspend(Duration lockTimeout) {
    lock(lockTimeout);
    // What a listener threw is better told now than with all the memory on the host.
    steps.rethrow();
    checkpoint();
  }
}
