package dev.gpuprocess.internal.context;

import dev.gpuprocess.cuda.CudaDriver;
import dev.gpuprocess.cuda.GpuInventory;
import dev.gpuprocess.internal.call.BoundedInventory;
import dev.gpuprocess.internal.image.ImageKey;
import dev.gpuprocess.internal.pool.HostMemoryPool;
import dev.gpuprocess.internal.state.StateDirectory;
import dev.gpuprocess.options.Timeouts;
import dev.gpuprocess.report.StepListener;
import dev.gpuprocess.spi.CriuDriver;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * The drivers and settings that a verb works with.
 *
 * @param cuda the CUDA driver; each call to it can hang
 * @param gpus the GPUs and their free memory; each call can hang
 * @param criuSource returns the CRIU driver; called at the first dump or restore
 * @param listener notified of every step
 * @param timeouts the time limits of driver calls
 * @param state the state directory, which the controllers of this machine share
 * @param driverHook whether the driver's copies are divided among threads
 * @param hostMemory the pool for the GPU memory of suspended processes
 * @param allowPeerMemory whether ranks that may map each other's GPU memory are checkpointed
 * @param allowPolls whether processes are checkpointed whose polls of the driver cannot be made to
 *     wait
 * @param resumeOnExit whether the exit of this JVM resumes what it has suspended
 * @param criuOptions the options of CRIU for all dumps and restores
 * @param imageKey the key that signs new images and verifies opened ones; null for none
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
    boolean allowPolls,
    boolean resumeOnExit,
    CriuSettings criuOptions,
    @Nullable ImageKey imageKey) {

  /** Returns the GPUs, read within a deadline. */
  public GpuInventory inventory() {
    return new BoundedInventory(gpus, timeouts.call());
  }

  /**
   * Returns the CRIU driver.
   *
   * @throws dev.gpuprocess.error.MachineUnfitException with reason NO_CRIU when no driver is found
   */
  public CriuDriver criu() {
    return criuSource.get();
  }
}
