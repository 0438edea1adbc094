package dev.gpuprocess.internal.dump;

import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.DiskFullException;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.Fate;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.error.OperationCancelledException;
import dev.gpuprocess.error.OperationTimedOutException;
import java.time.Duration;

/** Says of the failure of a snapshot that its process runs already. */
final class RunsOn {

  private RunsOn() {}

  /**
   * The same exception with that added; it is of the same type, so that callers may tell a full
   * disk from a slow one.
   *
   * @param name what is dumped, in words
   * @param elapsed since the snapshot began
   */
  static GpuCheckpointException said(
      GpuCheckpointException e, String name, int pid, Duration elapsed) {
    String message =
        "%s runs on, and there is no new image of it: %s".formatted(name, e.getMessage());
    Failure failure =
        new Failure(
            "snapshot",
            pid,
            ProcessState.RUNNING,
            ProcessState.RUNNING,
            elapsed,
            null,
            Fate.RUNNING_AGAIN);
    if (e instanceof DiskFullException) {
      return new DiskFullException(message, failure, e);
    }
    if (e instanceof ImageException) {
      return new ImageException(message, failure, e);
    }
    if (e instanceof OperationTimedOutException) {
      return new OperationTimedOutException(message, failure, e);
    }
    return e instanceof OperationCancelledException
        ? new OperationCancelledException(message, failure, e)
        : e;
  }
}
