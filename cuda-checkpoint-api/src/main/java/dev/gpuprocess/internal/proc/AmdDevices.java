package dev.gpuprocess.internal.proc;

/** Recognizes the device files of AMD GPUs. */
public final class AmdDevices {

  /** Stand-ins for tests have the same name in a directory of their own. */
  private static final String COMPUTE = "/dev/kfd";

  private static final String RENDER = "/dev/dri/renderD";

  private AmdDevices() {}

  /** Returns whether a path is a device file of an AMD GPU. */
  public static boolean isDevice(String name) {
    return name.endsWith(COMPUTE) || name.contains(RENDER);
  }
}
