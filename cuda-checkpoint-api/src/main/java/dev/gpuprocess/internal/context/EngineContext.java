package dev.gpuprocess.internal.context;

import dev.gpuprocess.cuda.CudaDriver;
import dev.gpuprocess.cuda.GpuInventory;
import dev.gpuprocess.image.ImageKey;
import dev.gpuprocess.internal.call.BoundedInventory;
import dev.gpuprocess.internal.pool.HostMemoryPool;
import dev.gpuprocess.internal.state.StateDirectory;
import dev.gpuprocess.options.Timeouts;
import dev.gpuprocess.progress.StepListener;
import dev.gpuprocess.spi.CriuDriver;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * The drivers and settings that a verb works with.
 *
 * @param cuda the CUDA driver; each call to it can hang
 * @param gpus which GPUs there are and what is free on them; each call can hang
 * @param criuSource gives the CRIU driver; asked at the first dump or restore
 * @param listener told of every step
 * @param timeouts how long driver calls may take
 * @param state where the controllers of this machine meet
 * @param driverHook whether the driver's copies are divided among threads
 * @param hostMemory where the GPU memory of suspended processes is
 * @param allowPeerMemory whether ranks are checkpointed that may map each other's GPU memory
 * @param resumeOnExit whether the exit of this JVM resumes what it has suspended
 * @param imageKey signs images that are made and is asked of those that are opened; null for none
 */
public record EngineContext(
    CudaDriver cuda,
    GpuInventory gpus,
    Supplier<CriuDriver> criuSource,
    StepListener listener,
    Timeouts timeouts,
    StateDirectory state,
    boolean driverHook,
    HostMemoryPool hostMemory,
    boolean allowPeerMemory,
    boolean resumeOnExit,
    @Nullable ImageKey imageKey) {

  /** The GPUs, asked within a deadline. */
  public GpuInventory inventory() {
    return new BoundedInventory(gpus, timeouts.call());
  }

  /**
   * The CRIU driver.
   *
   * @throws dev.gpuprocess.error.MachineUnfitException with reason NO_CRIU when there is none
   */
  public CriuDriver criu() {
    return criuSource.get();
  }
}
