package dev.gpuprocess.examples.cookbook;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.Fault;
import dev.gpuprocess.fixtures.Pattern;
import dev.gpuprocess.fixtures.SimulatedDriver;
import java.nio.file.Path;
import java.time.Duration;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

// [start:tests]
@Tag("jdk")
class PreemptingSchedulerTest {

  private SimulatedDriver machine; // a directory with a libcuda.so.1 that needs no GPU
  private Counter job; // a process that counts in GPU memory: 101, 102, ...
  private GpuCheckpoints gpus;
  private PreemptingScheduler scheduler;

  @BeforeEach
  void startJob(@TempDir Path state) {
    machine = SimulatedDriver.builder().memory(1L << 30).create();
    job = Counter.start(machine);
    gpus = GpuCheckpoints.builder().cuda(machine.directory()).stateDirectory(state).build();
    scheduler = new PreemptingScheduler(gpus, Duration.ZERO);
    scheduler.addBatchJob(job.pid());
    assertEquals(101, job.increment());
  }

  @AfterEach
  void endJob() {
    job.close();
    machine.close();
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

  private long freeBytes() {
    return gpus.gpus().gpus().orElseThrow().get(0).freeBytes();
  }
}
// [end:tests]
