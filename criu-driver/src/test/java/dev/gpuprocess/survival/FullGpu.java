package dev.gpuprocess.survival;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.FailedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.GpuProcess;
import dev.gpuprocess.LockedProcess;
import dev.gpuprocess.PoisonedProcess;
import dev.gpuprocess.PoisonedProcessException;
import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.error.GpuCheckpointException;
import java.util.List;
import java.util.Random;

/** Suspends processes of a crowd and resumes others, which is refused when the GPU is full. */
record FullGpu(GpuCheckpoints checkpoints, ControllerReport tally) {

  /** Runs until the time is over. */
  void work(Random random, List<Integer> pids, long endNanos) {
    while (!pids.isEmpty() && System.nanoTime() < endNanos) {
      int pid = pids.get(random.nextInt(pids.size()));
      try {
        turnOver(checkpoints.inspect(pid));
        tally.done();
      } catch (PoisonedProcessException e) {
        tally.addViolation(Violation.Kind.LOST, e.getMessage());
        return;
      } catch (GpuCheckpointException e) {
        tally.refused();
      }
    }
  }

  private void turnOver(GpuProcess found) {
    if (found instanceof RunningProcess running) {
      running.suspend();
    } else if (found instanceof CheckpointedProcess suspended) {
      suspended.resume();
    } else if (found instanceof LockedProcess locked) {
      locked.unlock();
    } else if (found instanceof FailedProcess failed) {
      tally.addViolation(Violation.Kind.LOST, "process " + failed.pid() + " has failed");
    } else if (found instanceof PoisonedProcess lost) {
      tally.addViolation(Violation.Kind.LOST, lost.toString());
    }
  }
}
