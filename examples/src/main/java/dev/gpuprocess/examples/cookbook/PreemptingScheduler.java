package dev.gpuprocess.examples.cookbook;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.error.FixAndRetryException;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.MachineUnfitException;
import dev.gpuprocess.error.ProcessUnfitException;
import dev.gpuprocess.error.RetryLaterException;
import dev.gpuprocess.options.ResumeOptions;
import dev.gpuprocess.options.SuspendOptions;
import java.time.Duration;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

// [start:scheduler]
/** Takes batch jobs off the GPU while urgent jobs run. May be used from any thread. */
public final class PreemptingScheduler {

  private static final Logger LOG = LoggerFactory.getLogger(PreemptingScheduler.class);

  private final GpuCheckpoints gpus;
  private final Duration memoryWait;

  // The monitor guards these fields. It is not held during a verb or an urgent job.
  private final Set<Long> batch = new LinkedHashSet<>();
  private final Set<Long> waiting = new LinkedHashSet<>();
  private int urgentJobs;
  private boolean cordoned;

  public PreemptingScheduler(GpuCheckpoints gpus, Duration memoryWait) {
    this.gpus = gpus;
    this.memoryWait = memoryWait;
  }

  public synchronized void addBatchJob(long pid) {
    batch.add(pid);
  }

  /** Runs an urgent job. The batch jobs continue after the last one, also when it throws. */
  public void runUrgent(Runnable urgent) {
    try {
      begin().forEach(this::suspend);
      urgent.run();
    } finally {
      end();
      resumeWaiting();
    }
  }

  private synchronized List<Long> begin() {
    urgentJobs++;
    return List.copyOf(batch);
  }

  private synchronized void end() {
    urgentJobs--;
  }

  private void suspend(long pid) {
    try {
      // It waits while the thread of another urgent job works on the batch job.
      gpus.suspend(pid, SuspendOptions.builder().deadline(Duration.ofMinutes(1)).build());
      addWaiting(pid);
    } catch (RetryLaterException e) {
      // The kernels did not finish in time, or another controller works on the job.
      LOG.info("left on the GPU for now: {}", e.getMessage());
    } catch (FixAndRetryException e) {
      // The job may be stopped by a debugger. The message names what to change.
      LOG.warn("needs an operator: {}", e.getMessage());
    } catch (ProcessUnfitException e) {
      // The job has ended, or uses memory that the driver cannot checkpoint: do not try again.
      LOG.warn("removed from the batch jobs: {}", e.getMessage());
      remove(pid);
    } catch (MachineUnfitException e) {
      // No process of this machine can be suspended: the driver is too old, for instance.
      cordon();
      throw e;
    }
  }

  /** Tries to resume the waiting jobs. Call it when GPU memory was freed, or every minute. */
  public void resumeWaiting() {
    for (long pid : resumable()) {
      resume(pid);
    }
  }

  private synchronized List<Long> resumable() {
    return urgentJobs > 0 ? List.of() : List.copyOf(waiting);
  }

  private void resume(long pid) {
    try {
      // The process that used the GPU may take a moment to release its memory.
      gpus.resume(pid, ResumeOptions.builder().waitForMemory(memoryWait).build());
      removeWaiting(pid);
    } catch (ProcessUnfitException e) {
      LOG.warn("lost: {}", e.getMessage());
      remove(pid);
    } catch (GpuCheckpointException e) {
      // Too little memory is free, or something has to be fixed first. The job stays suspended.
      LOG.warn("still suspended: {}", e.getMessage());
    }
  }

  private synchronized void addWaiting(long pid) {
    waiting.add(pid);
  }

  private synchronized void removeWaiting(long pid) {
    waiting.remove(pid);
  }

  private synchronized void remove(long pid) {
    batch.remove(pid);
    waiting.remove(pid);
  }

  private synchronized void cordon() {
    cordoned = true;
  }

  public synchronized int waiting() {
    return waiting.size();
  }

  public synchronized boolean isCordoned() {
    return cordoned;
  }
}
// [end:scheduler]
