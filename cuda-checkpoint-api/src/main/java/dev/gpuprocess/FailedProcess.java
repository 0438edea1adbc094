package dev.gpuprocess;

import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.internal.engine.StateHandle;

/**
 * A process that a checkpoint or restore broke: the driver allows nothing on it any more. It can
 * only be ended, and an image of it restored.
 */
public final class FailedProcess extends LiveProcess implements GpuProcess {

  FailedProcess(StateHandle self) {
    super(self, ProcessState.FAILED);
  }

  /**
   * Ends the process with SIGKILL and waits until it is gone, or a zombie of its parent. Looks
   * first: one that is not failed is not ended. Does nothing when it has ended.
   *
   * @throws dev.gpuprocess.error.StaleStateException when the process is not failed, or this object
   *     is not the newest one
   * @throws dev.gpuprocess.error.ProcessStoppedException when it is stopped, and cannot be looked
   *     at
   */
  public void end() {
    self.end(ProcessState.FAILED);
  }
}
