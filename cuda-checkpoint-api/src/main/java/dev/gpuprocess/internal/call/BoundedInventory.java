package dev.gpuprocess.internal.call;

import dev.gpuprocess.cuda.Gpu;
import dev.gpuprocess.cuda.GpuInventory;
import dev.gpuprocess.cuda.GpuReading;
import dev.gpuprocess.error.OperationInProgressException;
import dev.gpuprocess.internal.text.Printable;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeoutException;
import java.util.function.Function;
import java.util.function.Supplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * An inventory whose calls have a deadline, after which their result is unknown. Safe for use by
 * several threads.
 */
public record BoundedInventory(GpuInventory inventory, Duration deadline) implements GpuInventory {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");
  private static final String NVML = "NVML";

  @Override
  public Optional<List<Gpu>> gpus() {
    return ask("list the GPUs", inventory::gpus, why -> Optional.empty());
  }

  /** An inventory that does not respond counts as a GPU that cannot be read, not as no GPU. */
  @Override
  public Optional<GpuReading> read() {
    return ask(
        "read the GPUs",
        inventory::read,
        why -> Optional.of(new GpuReading(List.of(), List.of(why))));
  }

  @Override
  public Optional<String> driverVersion() {
    return ask("read the driver's version", inventory::driverVersion, why -> Optional.empty());
  }

  private <T> Optional<T> ask(
      String what, Supplier<Optional<T>> question, Function<String, Optional<T>> otherwise) {
    String why;
    try {
      BoundedCall.requireCapacity(NVML, what);
      return BoundedCall.run(NVML, what, deadline, question, (late, failure) -> {});
    } catch (TimeoutException e) {
      why = "NVML did not answer within " + Printable.of(deadline);
    } catch (OperationInProgressException e) {
      why = "NVML does not answer: " + e.getMessage();
    }
    LOG.warn("{} ({})", why, what);
    return otherwise.apply(why);
  }
}
