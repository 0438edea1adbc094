package dev.gpuprocess.examples.demo;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.cuda.CudaDriver;
import dev.gpuprocess.cuda.Gpu;
import dev.gpuprocess.cuda.GpuInventory;
import dev.gpuprocess.cuda.GpuUuid;
import dev.gpuprocess.error.MachineUnfitException;
import dev.gpuprocess.fixtures.Launch;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.fixtures.Workload;
import java.time.LocalDate;
import java.time.ZoneOffset;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/** The GPUs that an example uses: the GPUs of this machine, or simulated ones. */
public final class Machine implements AutoCloseable {

  /** The {@code cuDriverGetVersion} of driver 570, the first with the checkpoint functions. */
  private static final int FIRST_WITH_CHECKPOINT = 12080;

  private final GpuCheckpoints checkpoints;
  private final @Nullable SimulatedDriver simulated;
  private final String description;

  private Machine(
      GpuCheckpoints checkpoints, @Nullable SimulatedDriver simulated, String description) {
    this.checkpoints = checkpoints;
    this.simulated = simulated;
    this.description = description;
  }

  /** Returns the real GPUs if they can be used, else simulated ones with the reason. */
  public static Machine best() {
    GpuCheckpoints standard = GpuCheckpoints.standard();
    return whyUnusable(standard.cuda(), standard.gpus())
        .map(Machine::simulated)
        .orElseGet(Machine::real);
  }

  /** Returns the real GPUs, unchecked. */
  public static Machine real() {
    GpuCheckpoints standard = GpuCheckpoints.standard();
    return new Machine(
        standard,
        null,
        "%s, driver %s"
            .formatted(names(standard.gpus()), standard.gpus().driverVersion().orElse("unknown")));
  }

  /** Returns one simulated GPU, with the reason. */
  public static Machine simulated(String because) {
    return on(SimulatedDriver.create(), because);
  }

  /** Returns a simulated machine with the given driver, which is closed with it. */
  public static Machine on(SimulatedDriver driver, String because) {
    GpuCheckpoints checkpoints = GpuCheckpoints.builder().cuda(driver.directory()).build();
    return new Machine(checkpoints, driver, "simulated, " + because);
  }

  /** Returns the reason why the real GPUs cannot be used; empty if they can. */
  public static Optional<String> whyUnusable(CudaDriver cuda, GpuInventory inventory) {
    try {
      int version = cuda.version();
      if (version < FIRST_WITH_CHECKPOINT) {
        return Optional.of(
            "the driver here is for CUDA %s.%s; 12.8 (driver 570) is the first that can checkpoint"
                .formatted(version / 1000, version % 1000 / 10));
      }
    } catch (MachineUnfitException e) {
      return Optional.of(
          e.reason() == MachineUnfitException.Reason.NO_CUDA_DRIVER
              ? "there is no NVIDIA driver here"
              : String.valueOf(e.getMessage()));
    }
    return inventory.gpus().filter(gpus -> !gpus.isEmpty()).isPresent()
        ? Optional.empty()
        : Optional.of("NVML finds no GPU");
  }

  private static String names(GpuInventory inventory) {
    List<String> names = inventory.gpus().orElse(List.of()).stream().map(Gpu::name).toList();
    return names.isEmpty() ? "no GPU" : String.join(", ", names);
  }

  public GpuCheckpoints checkpoints() {
    return checkpoints;
  }

  public boolean isSimulated() {
    return simulated != null;
  }

  /** Makes a workload run on these GPUs. */
  public <W extends Workload> Launch<W> on(Launch<W> launch) {
    return simulated == null ? launch : launch.on(simulated);
  }

  /** Returns the environment variables with which another process finds these GPUs. */
  public Map<String, String> environment() {
    return simulated == null ? Map.of() : simulated.environment();
  }

  /** Returns the free memory of a GPU, in bytes. */
  long freeMemory(String gpu) {
    GpuUuid uuid = GpuUuid.of(gpu);
    return checkpoints.gpus().gpus().orElse(List.of()).stream()
        .filter(found -> found.uuid().equals(uuid))
        .mapToLong(Gpu::freeBytes)
        .findFirst()
        .orElseThrow(() -> new IllegalStateException("NVML does not report GPU " + gpu));
  }

  /** Returns the first line of a log: date, GPU, kernel, CRIU and Java. */
  public String headline(String program) {
    return "%s %s: GPU %s; kernel %s; CRIU %s; Java %s"
        .formatted(
            program,
            LocalDate.now(ZoneOffset.UTC),
            this,
            System.getProperty("os.version"),
            checkpoints.criu().version(),
            Runtime.version());
  }

  /** Returns {@code real} or {@code simulated}. */
  public String kind() {
    return isSimulated() ? "simulated" : "real";
  }

  @Override
  public String toString() {
    return description;
  }

  @Override
  public void close() {
    if (simulated != null) {
      simulated.close();
    }
  }
}
