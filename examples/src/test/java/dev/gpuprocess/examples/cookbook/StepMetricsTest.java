package dev.gpuprocess.examples.cookbook;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.error.LockTimeoutException;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.Fault;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.fixtures.SimulatedGpu;
import dev.gpuprocess.report.Step;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** The recipe of the metrics. */
@SimulatedGpu
class StepMetricsTest {

  private final SimpleMeterRegistry registry = new SimpleMeterRegistry();
  private final SimulatedDriver machine;
  private final Counter counter;
  private final RunningProcess running;

  StepMetricsTest(SimulatedDriver machine, GpuCheckpoints gpus, Counter counter) {
    this.machine = machine;
    this.counter = counter;
    running = gpus.toBuilder().listener(new StepMetrics(registry)).build().process(counter.pid());
  }

  @Test
  void eachStepHasATimerAndItsBytes() {
    List<Step> steps = running.suspend().resume().suspend().resume().steps();
    assertEquals(101, counter.increment());
    for (String name : List.of("lock", "checkpoint", "restore", "unlock")) {
      assertEquals(2, registry.get("gpuprocess.step").tag("step", name).timer().count(), name);
    }
    Step last = steps.stream().filter(each -> each.name().equals("restore")).findFirst().get();
    assertTrue(last.bytes() > 0);
    assertEquals(2.0 * last.bytes(), moved("restore"));
    assertEquals(2.0 * last.bytes(), moved("checkpoint"));
    assertEquals(0, moved("lock"));
    assertTrue(
        registry
                .get("gpuprocess.step")
                .tag("step", "restore")
                .timer()
                .totalTime(TimeUnit.NANOSECONDS)
            >= last.duration().toNanos());
  }

  @Test
  void failuresAreCountedByType() {
    machine.faults(Fault.in("cuCheckpointProcessLock").answers(600)); // CUDA_ERROR_NOT_READY
    assertThrows(LockTimeoutException.class, running::suspend);
    assertEquals(
        1,
        registry
            .get("gpuprocess.step.failed")
            .tags("step", "lock", "failure", "LockTimeoutException")
            .counter()
            .count());
  }

  private double moved(String step) {
    return registry.get("gpuprocess.step.moved").tag("step", step).counter().count();
  }
}
