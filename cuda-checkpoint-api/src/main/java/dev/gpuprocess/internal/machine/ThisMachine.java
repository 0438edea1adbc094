package dev.gpuprocess.internal.machine;

import dev.gpuprocess.cuda.GpuReading;
import dev.gpuprocess.image.ImageMachine;
import dev.gpuprocess.internal.context.EngineContext;
import java.util.Optional;

/**
 * This machine, at a restore.
 *
 * @param architecture the instruction set, as Java names it
 * @param driver the version of the NVIDIA driver; empty if unknown
 * @param gpus empty if unknown
 * @param kernel the release of the kernel
 * @param criu the version of CRIU
 */
record ThisMachine(
    String architecture,
    Cpu cpu,
    Optional<String> driver,
    Optional<GpuReading> gpus,
    String kernel,
    String criu) {

  static final String ARCHITECTURE = System.getProperty("os.arch");

  /** Reads this machine, each part within its deadline. */
  static ThisMachine look(EngineContext context) {
    return new ThisMachine(
        ARCHITECTURE,
        Cpu.here(),
        context.inventory().driverVersion(),
        context.inventory().read(),
        System.getProperty("os.version"),
        context.criu().version());
  }

  /**
   * Returns the name of hardware as a manifest records it; drivers and hypervisors may add any
   * bytes.
   */
  static String recordedName(String name) {
    String plain = name.replaceAll("[^ -~]", "?");
    return plain.substring(0, Math.min(plain.length(), ImageMachine.LONGEST_NAME));
  }
}
