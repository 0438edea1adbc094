package dev.gpuprocess.examples.cookbook;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.error.FixAndRetryException;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.MachineUnfitException;
import dev.gpuprocess.error.ProcessUnfitException;
import dev.gpuprocess.error.RetryLaterException;
import dev.gpuprocess.error.StaleStateException;
import dev.gpuprocess.options.ResumeOptions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

// [start:scheduler]
/** Takes batch jobs off the GPU while an urgent job runs. May be used from any thread. */
public final class PreemptingScheduler {

  private static final Logger LOG = LoggerFactory.getLogger(PreemptingScheduler.class);

  private final GpuCheckpoints gpus;
  private final Duration memoryWait;
  private final Set<Long> batch = new LinkedHashSet<>();
  private final List<CheckpointedProcess> waiting = new ArrayList<>();
  private boolean cordoned;

  public PreemptingScheduler(GpuCheckpoints gpus, Duration memoryWait) {
    this.gpus = gpus;
    this.memoryWait = memoryWait;
  }

  public synchronized void addBatchJob(long pid) {
    batch.add(pid);
  }

  /** Runs an urgent job. The batch jobs continue afterwards, also when it throws. */
  public synchronized void runUrgent(Runnable urgent) {
    List<CheckpointedProcess> suspended = new ArrayList<>();
    try {
      for (long pid : List.copyOf(batch)) {
        suspend(pid).ifPresent(suspended::add);
      }
      urgent.run();
    } finally {
      suspended.forEach(this::resume);
    }
  }

  private Optional<CheckpointedProcess> suspend(long pid) {
    try {
      return Optional.of(gpus.process(pid).suspend());
    } catch (RetryLaterException e) {
      // The kernels did not finish in time, or another controller works on the job.
      LOG.info("left on the GPU for now: {}", e.getMessage());
    } catch (FixAndRetryException e) {
      // The job may be stopped by a debugger. The message names what to change.
      LOG.warn("needs an operator: {}", e.getMessage());
    } catch (ProcessUnfitException e) {
      // The job has ended, or uses memory that the driver cannot checkpoint: do not try again.
      LOG.warn("removed from the batch jobs: {}", e.getMessage());
      batch.remove(pid);
    } catch (MachineUnfitException e) {
      // No process of this machine can be suspended: the driver is too old, for instance.
      cordoned = true;
      throw e;
    }
    return Optional.empty();
  }

  private void resume(CheckpointedProcess job) {
    try {
      // The process that used the GPU may take a moment to release its memory.
      job.resume(ResumeOptions.builder().waitForMemory(memoryWait).build());
    } catch (StaleStateException e) {
      LOG.info("another controller has moved the job: {}", e.getMessage());
    } catch (ProcessUnfitException e) {
      LOG.warn("lost: {}", e.getMessage());
      batch.remove((long) job.pid());
    } catch (GpuCheckpointException e) {
      // Too little memory is free, or something has to be fixed first. The job stays suspended.
      LOG.warn("still suspended: {}", e.getMessage());
      waiting.add(job);
    }
  }

  /** Tries to resume the waiting jobs. Call it when GPU memory was freed, or every minute. */
  public synchronized void resumeWaiting() {
    List<CheckpointedProcess> again = List.copyOf(waiting);
    waiting.clear();
    again.forEach(this::resume);
  }

  public synchronized int waiting() {
    return waiting.size();
  }

  public synchronized boolean isCordoned() {
    return cordoned;
  }
}
// [end:scheduler]
