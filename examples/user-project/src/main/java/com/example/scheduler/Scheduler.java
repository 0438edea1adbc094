package com.example.scheduler;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuCheckpoints;
import java.nio.file.Path;

/** A scheduler that lets urgent jobs use the GPU of a long job. */
public final class Scheduler {

  private final GpuCheckpoints gpus;

  public Scheduler(GpuCheckpoints gpus) {
    this.gpus = gpus;
  }

  /** Runs an urgent job on the GPU of a long one, which continues also if the urgent job throws. */
  public void preempt(long pid, Runnable urgent) {
    try (CheckpointedProcess parked = gpus.process(pid).suspend()) {
      urgent.run();
    }
  }

  /** Dumps a job, so that it uses neither GPU nor memory; if that fails, the job keeps running. */
  public void evict(long pid, Path image) {
    gpus.process(pid).dump(image);
  }

  /** Restores a job that was evicted. */
  public void readmit(Path image) {
    gpus.open(image).restore().resume();
  }
}
