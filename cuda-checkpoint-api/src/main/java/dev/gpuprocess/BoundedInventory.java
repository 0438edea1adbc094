package dev.gpuprocess;

import dev.gpuprocess.cuda.Gpu;
import dev.gpuprocess.cuda.GpuInventory;
import dev.gpuprocess.cuda.GpuReading;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeoutException;
import java.util.function.Supplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** An inventory that nobody waits for longer than for any other call: then nothing is known. */
record BoundedInventory(GpuInventory inventory, Duration deadline) implements GpuInventory {

  private static final Logger LOG = LoggerFactory.getLogger(GpuProcess.class);

  @Override
  public Optional<List<Gpu>> gpus() {
    return ask("list the GPUs", inventory::gpus);
  }

  @Override
  public Optional<GpuReading> read() {
    try {
      return BoundedCall.run("read the GPUs", deadline, inventory::read, (late, failure) -> {});
    } catch (TimeoutException e) {
      String silent = "NVML did not answer within " + deadline;
      LOG.warn(silent);
      return Optional.of(new GpuReading(List.of(), List.of(silent)));
    }
  }

  @Override
  public Optional<String> driverVersion() {
    return ask("read the driver's version", inventory::driverVersion);
  }

  private <T> Optional<T> ask(String what, Supplier<Optional<T>> question) {
    try {
      return BoundedCall.run(what, deadline, question, (late, failure) -> {});
    } catch (TimeoutException e) {
      LOG.warn("NVML did not {} within {}", what, deadline);
      return Optional.empty();
    }
  }
}
