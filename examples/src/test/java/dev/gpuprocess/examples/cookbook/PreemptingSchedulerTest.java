package dev.gpuprocess.examples.cookbook;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.Fault;
import dev.gpuprocess.fixtures.Pattern;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.fixtures.SimulatedGpu;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

// [start:tests]
@Tag("jdk")
@SimulatedGpu(mebibytes = 1024) // gpus = 2 for a machine with two
class PreemptingSchedulerTest {

  private final SimulatedDriver machine; // a directory with a libcuda.so.1 that needs no GPU
  private final Counter job; // a process that counts in GPU memory: 101, 102, ...
  private final GpuCheckpoints gpus;
  private final PreemptingScheduler scheduler;

  // each test has its own; all of it is gone after the test
  PreemptingSchedulerTest(SimulatedDriver machine, GpuCheckpoints gpus, Counter job) {
    this.machine = machine;
    this.gpus = gpus;
    this.job = job;
    scheduler = new PreemptingScheduler(gpus, Duration.ZERO);
    scheduler.addBatchJob(job.pid());
    assertEquals(101, job.increment());
  }

  @Test
  void urgentJobHasTheGpu() {
    long before = freeBytes();
    scheduler.runUrgent(() -> assertTrue(freeBytes() > before));
    assertEquals(102, job.increment());
  }

  @Test
  void aBusyJobStaysOnTheGpu() {
    machine.faults(Fault.in("cuCheckpointProcessLock").answers(600)); // CUDA_ERROR_NOT_READY
    scheduler.runUrgent(() -> assertInstanceOf(RunningProcess.class, gpus.inspect(job.pid())));
    assertEquals(102, job.increment());
  }

  @Test
  void anUnfitJobKeepsRunning() {
    job.allocateManaged(); // which the driver refuses to checkpoint
    scheduler.runUrgent(() -> assertFalse(scheduler.isCordoned()));
    assertEquals(102, job.increment());
  }

  @Test
  void aJobWaitsUntilMemoryIsFree() {
    AtomicReference<Pattern> urgent = new AtomicReference<>();
    scheduler.runUrgent(() -> urgent.set(Pattern.start(machine, 800))); // MiB of 1 GiB
    try (Pattern stillThere = requireNonNull(urgent.get())) {
      assertEquals(1, scheduler.waiting());
      stillThere.free();
      scheduler.resumeWaiting();
    }
    assertEquals(0, scheduler.waiting());
    assertEquals(102, job.increment());
  }

  @Test
  void otherThreadsUseItWhileAnUrgentJobRuns() {
    scheduler.runUrgent(
        () -> {
          CompletableFuture.runAsync(() -> scheduler.runUrgent(() -> {}))
              .orTimeout(3, TimeUnit.MINUTES)
              .join();
          assertInstanceOf(CheckpointedProcess.class, gpus.inspect(job.pid()));
        });
    assertEquals(102, job.increment());
  }

  private long freeBytes() {
    return gpus.gpus().gpus().orElseThrow().get(0).freeBytes();
  }
}
// [end:tests]
