package dev.gpuprocess;

import dev.gpuprocess.cuda.ProcessState;

/**
 * A process that a checkpoint or restore broke: the driver allows nothing on it any more. It can
 * only be ended, and an image of it restored.
 */
public final class FailedProcess extends LiveProcess implements GpuProcess {

  FailedProcess(StateObject self) {
    super(self, ProcessState.FAILED);
  }

  /** Ends the process with SIGKILL and waits until it is gone, or a zombie of its parent. */
  public void end() {
    self.target().end();
  }
}
