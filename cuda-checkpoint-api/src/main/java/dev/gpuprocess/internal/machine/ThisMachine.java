package dev.gpuprocess.internal.machine;

import dev.gpuprocess.cuda.GpuReading;
import dev.gpuprocess.internal.context.EngineContext;
import java.util.Optional;

/**
 * The machine of a restore.
 *
 * @param architecture its instruction set, as Java names it
 * @param cpu its CPU
 * @param driver the version of its NVIDIA driver; empty where it is not known
 * @param gpus its GPUs; empty where nothing can tell
 * @param kernel the release of its kernel
 * @param criu the version of its CRIU
 */
record ThisMachine(
    String architecture,
    Cpu cpu,
    Optional<String> driver,
    Optional<GpuReading> gpus,
    String kernel,
    String criu) {

  static final String ARCHITECTURE = System.getProperty("os.arch");

  /** Asks each within its deadline. */
  static ThisMachine look(EngineContext context) {
    return new ThisMachine(
        ARCHITECTURE,
        Cpu.here(),
        context.inventory().driverVersion(),
        context.inventory().read(),
        System.getProperty("os.version"),
        context.criu().version().toString());
  }
}
