package dev.gpuprocess;

import dev.gpuprocess.cuda.ProcessState;
import java.util.List;

/**
 * A process that a checkpoint or restore broke: the driver allows nothing on it any more. It can
 * only be ended, and an image of it restored.
 */
public final class FailedProcess implements GpuProcess {

  private final StateObject self;

  FailedProcess(StateObject self) {
    this.self = self;
  }

  /** Ends the process with SIGKILL and waits until it is gone, or a zombie of its parent. */
  public void end() {
    self.target().end();
  }

  @Override
  public ProcessIdentity identity() {
    return self.target().identity;
  }

  @Override
  public ProcessState state() {
    return ProcessState.FAILED;
  }

  @Override
  public List<Step> steps() {
    return self.steps();
  }

  @Override
  public String toString() {
    return "process " + pid() + ", failed";
  }
}
