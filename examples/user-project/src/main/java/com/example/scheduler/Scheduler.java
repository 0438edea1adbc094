package com.example.scheduler;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuCheckpoints;
import java.nio.file.Path;

/** Gives the GPU of a long job to others, for a while or until further notice. */
public final class Scheduler {

  private final GpuCheckpoints gpus;

  public Scheduler(GpuCheckpoints gpus) {
    this.gpus = gpus;
  }

  /** Runs an urgent job on the GPU of a long one, which goes on afterwards whatever happens. */
  public void preempt(long pid, Runnable urgent) {
    try (CheckpointedProcess parked = gpus.process(pid).suspend()) {
      urgent.run();
    }
  }

  /** Takes a job off this machine's GPU and memory; if that fails, the job runs on. */
  public void evict(long pid, Path image) {
    gpus.process(pid).dump(image);
  }

  /** Brings a job back that was evicted. */
  public void readmit(Path image) {
    gpus.open(image).restore().resume();
  }
}
