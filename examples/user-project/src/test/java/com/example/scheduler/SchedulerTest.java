package com.example.scheduler;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.SimulatedGpu;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Runs once on the class path and once on the module path. */
@SimulatedGpu
class SchedulerTest {

  private final Counter job;
  private final GpuCheckpoints gpus;
  private final Scheduler scheduler;

  SchedulerTest(Counter job, GpuCheckpoints gpus) {
    this.job = job;
    this.gpus = gpus;
    scheduler = new Scheduler(gpus);
    assertEquals(101, job.increment());
  }

  @Test
  void runsOnThePathItIsMeantToRunOn() {
    Module module = Scheduler.class.getModule();
    String expected = System.getProperty("scheduler.module");
    assertEquals(expected, module.isNamed() ? module.getName() : "none");
    assertEquals(!expected.equals("none"), GpuCheckpoints.class.getModule().isNamed());
  }

  @Test
  void urgentJobHasTheGpuMeanwhile() {
    long before = job.freeMemory();
    scheduler.preempt(
        job.pid(),
        () -> {
          assertInstanceOf(CheckpointedProcess.class, gpus.inspect(job.pid()));
          long free = gpus.gpus().gpus().orElseThrow().get(0).freeBytes();
          assertFalse(free <= before, free + " bytes are free, " + before + " before");
        });
    assertEquals(102, job.increment());
  }

  @Test
  void jobGoesOnWhenTheUrgentOneFails() {
    Runnable urgent =
        () -> {
          throw new IllegalStateException("urgent, and wrong");
        };
    assertThrows(IllegalStateException.class, () -> scheduler.preempt(job.pid(), urgent));
    assertEquals(102, job.increment());
  }

  @Test
  void evictedJobComesBack(@TempDir Path directory) {
    assumeTrue(
        System.getenv("GPUPROCESS_CRIU") != null,
        "needs CRIU: name one in GPUPROCESS_CRIU; bin/criu prints one that works here");
    scheduler.evict(job.pid(), directory.resolve("image"));
    assertFalse(job.isAlive());
    scheduler.readmit(directory.resolve("image"));
    assertEquals(102, job.increment());
  }
}
