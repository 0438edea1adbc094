package dev.gpuprocess.survival;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.cuda.CudaDriver;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.OperationInProgressException;
import java.time.Duration;
import java.util.Optional;

/**
 * A job that one controller has for itself, that nothing is made to go wrong with, and that
 * everybody looks at: whenever a block is left it must run.
 */
record QuietJob(GpuCheckpoints checkpoints, CudaDriver driver, ControllerReport tally) {

  private static final Duration PATIENCE = Duration.ofSeconds(60);

  /** Suspends it and leaves the block, repeatedly until the time is over. */
  void work(int pid, long endNanos) {
    boolean calm = true;
    while (System.nanoTime() < endNanos) {
      calm = once(pid, calm);
    }
  }

  /**
   * Once.
   *
   * @param calm whether all went well the last time, so that no call can still be under way
   */
  private boolean once(int pid, boolean calm) {
    try {
      suspendAndLeaveTheBlock(pid);
      tally.done();
      ProcessState state = state(pid);
      if (state != ProcessState.RUNNING) {
        leftBehind("the block was left, and process " + pid + " is " + state);
        bringBack(pid);
      }
      return true;
    } catch (OperationInProgressException e) {
      if (calm) {
        leftBehind("only readers used process " + pid + ", and " + e.getMessage());
      }
      bringBack(pid);
    } catch (GpuCheckpointException e) {
      tally.refused();
      bringBack(pid);
    }
    return false;
  }

  private void suspendAndLeaveTheBlock(int pid) {
    try (CheckpointedProcess suspended = checkpoints.process(pid).suspend()) {
      checkpoints.inspect(suspended.pid());
    }
  }

  private void leftBehind(String why) {
    tally.addViolation(Violation.Kind.LEFT_BEHIND, why);
  }

  /** Reads the state from the driver, which needs descriptors too. */
  private ProcessState state(int pid) {
    return answer(pid)
        .orElseThrow(() -> new IllegalStateException("the driver says nothing of " + pid));
  }

  private Optional<ProcessState> answer(int pid) {
    return Waiting.forValue(PATIENCE, () -> Optional.ofNullable(driver.getState(pid).value()));
  }

  private void bringBack(int pid) {
    boolean back =
        Waiting.until(
            PATIENCE,
            () -> {
              try {
                SoakVerbs.bringBack(checkpoints.inspect(pid));
                return state(pid) == ProcessState.RUNNING;
              } catch (GpuCheckpointException e) {
                return false;
              }
            });
    if (!back) {
      leftBehind("process " + pid + " cannot be brought back, and nothing is wrong with it");
    }
  }
}
