package dev.gpuprocess.internal.engine;

import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.InsufficientGpuMemoryException;
import dev.gpuprocess.internal.room.GpuMemoryRefusal;
import dev.gpuprocess.internal.room.Holdings;
import dev.gpuprocess.internal.room.Reservation;
import dev.gpuprocess.options.ResumeOptions;

/** The way back to the GPU: restore into reserved room, unlock. */
public final class Resumption {

  private final DriverOperation operation;
  private final TrackedProcess target;
  private final StepRecorder steps;
  private final ResumeOptions options;

  /** Nothing is done yet. */
  public Resumption(
      DriverOperation operation, TrackedProcess target, StepRecorder steps, ResumeOptions options) {
    this.operation = operation;
    this.target = target;
    this.steps = steps;
    this.options = options;
  }

  /** Restores a checkpointed process, which is locked then. */
  public void restore() {
    Holdings held = options.needs().map(Holdings::told).orElse(target.held());
    Reservation room = target.gpuMemory(options).reserve(this::refusal);
    try {
      steps.run("restore", held.bytes(), () -> operation.restore(options.pairs(), room));
    } finally {
      if (!operation.isAbandoned()) {
        room.close();
      }
    }
  }

  private InsufficientGpuMemoryException refusal(GpuMemoryRefusal why) {
    return why.exception(
        operation.failure(null, ProcessState.CHECKPOINTED), RoomWait.advice(options));
  }

  /** Restores and unlocks, as far as each is needed from the state that the process is in. */
  public void resume(ProcessState found) {
    if (found == ProcessState.CHECKPOINTED) {
      restore();
    }
    if (found == ProcessState.RUNNING) {
      return;
    }
    try {
      unlock();
    } catch (RuntimeException e) {
      // It was restored for nothing if it stays locked.
      if (found == ProcessState.LOCKED || operation.isAbandoned()) {
        throw e;
      }
      unlockAgain(e);
    }
  }

  private void unlockAgain(RuntimeException first) {
    try {
      unlock();
    } catch (RuntimeException e) {
      first.addSuppressed(e);
      throw first;
    }
  }

  private void unlock() {
    steps.run("unlock", 0, operation::unlock);
  }
}
