package dev.gpuprocess;

import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.internal.engine.StateHandle;

/**
 * A process with a member that a checkpoint or restore broke: the driver allows nothing on that
 * member any more. The process can only be ended, and an image of it restored.
 */
public final class FailedProcess extends LiveProcess implements GpuProcess {

  FailedProcess(StateHandle self) {
    super(self, ProcessState.FAILED);
  }

  /**
   * Ends the process and its descendants with SIGKILL and waits until they are gone, or the process
   * is a zombie of its parent. Looks first: without a failed member it is not ended. Does nothing
   * when it has ended.
   *
   * @throws dev.gpuprocess.error.StaleStateException when no member is failed, or this object is
   *     not the newest one
   * @throws dev.gpuprocess.error.FixAndRetryException with reason PROCESS_STOPPED when it is
   *     stopped, and cannot be read
   */
  public void end() {
    self.end(ProcessState.FAILED);
  }
}
