package dev.gpuprocess.examples.cookbook;

import dev.gpuprocess.report.Step;
import dev.gpuprocess.report.StepListener;
import io.micrometer.core.instrument.Counter;
import io.micrometer.core.instrument.MeterRegistry;

// [start:metrics]
/** Feeds the steps of all verbs to Micrometer. May be used from any thread. */
public final class StepMetrics implements StepListener {

  private final MeterRegistry registry;

  public StepMetrics(MeterRegistry registry) {
    this.registry = registry;
  }

  @Override
  public void finished(Step step) {
    registry.timer("gpuprocess.step", "step", step.name()).record(step.duration());
    Counter.builder("gpuprocess.step.moved")
        .baseUnit("bytes")
        .tag("step", step.name())
        .register(registry)
        .increment((double) step.bytes());
  }

  @Override
  public void failed(String name, int pid, RuntimeException failure) {
    String type = failure.getClass().getSimpleName();
    registry.counter("gpuprocess.step.failed", "step", name, "failure", type).increment();
  }
}
// [end:metrics]
