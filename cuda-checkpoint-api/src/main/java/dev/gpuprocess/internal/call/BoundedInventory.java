package dev.gpuprocess.internal.call;

import dev.gpuprocess.error.OperationInProgressException;
import dev.gpuprocess.gpu.Gpu;
import dev.gpuprocess.gpu.GpuInventory;
import dev.gpuprocess.gpu.GpuReading;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeoutException;
import java.util.function.Supplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * An inventory whose calls are bounded by a deadline; after that, nothing is known. Safe for use by
 * several threads.
 */
public record BoundedInventory(GpuInventory inventory, Duration deadline) implements GpuInventory {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");
  private static final String NVML = "NVML";

  @Override
  public Optional<List<Gpu>> gpus() {
    return ask("list the GPUs", inventory::gpus);
  }

  @Override
  public Optional<GpuReading> read() {
    try {
      BoundedCall.requireCapacity(NVML, "read the GPUs");
      return BoundedCall.run(
          NVML, "read the GPUs", deadline, inventory::read, (late, failure) -> {});
    } catch (TimeoutException e) {
      return silent("NVML did not answer within " + deadline);
    } catch (OperationInProgressException e) {
      return silent("NVML does not answer: " + e.getMessage());
    }
  }

  /** There is an inventory, but it does not answer. */
  private static Optional<GpuReading> silent(String why) {
    LOG.warn(why);
    return Optional.of(new GpuReading(List.of(), List.of(why)));
  }

  @Override
  public Optional<String> driverVersion() {
    return ask("read the driver's version", inventory::driverVersion);
  }

  private <T> Optional<T> ask(String what, Supplier<Optional<T>> question) {
    try {
      BoundedCall.requireCapacity(NVML, what);
      return BoundedCall.run(NVML, what, deadline, question, (late, failure) -> {});
    } catch (TimeoutException e) {
      LOG.warn("NVML did not {} within {}", what, deadline);
      return Optional.empty();
    } catch (OperationInProgressException e) {
      LOG.warn("NVML is not asked to {}: {}", what, e.getMessage());
      return Optional.empty();
    }
  }
}
