package dev.gpuprocess.internal.proc;

import java.util.Optional;
import java.util.concurrent.atomic.AtomicReference;

/** The device files of AMD GPUs that a process has open or mapped. */
public final class AmdDevices {

  /** Stand-ins for tests have the same name in a directory of their own. */
  private static final String COMPUTE = "/dev/kfd";

  private static final String RENDER = "/dev/dri/renderD";

  private AmdDevices() {}

  /** Returns whether a path is a device file of an AMD GPU. */
  public static boolean isDevice(String name) {
    return name.endsWith(COMPUTE) || name.contains(RENDER);
  }

  /**
   * Finds a device file that a process has open or mapped.
   *
   * @param each called for each descriptor and mapping; its exceptions end the search
   * @return the name of one
   * @throws ProcessUnreadableException when the process may not be read
   */
  public static Optional<String> heldBy(int pid, Runnable each) {
    AtomicReference<String> found = new AtomicReference<>();
    ProcFs.openFiles(
        pid,
        file -> {
          each.run();
          if (isDevice(file.target())) {
            found.compareAndSet(null, file.target());
          }
        });
    ProcFs.memory(
        pid,
        mapping -> {
          each.run();
          if (isDevice(mapping.name())) {
            found.compareAndSet(null, mapping.name());
          }
        });
    return Optional.ofNullable(found.get());
  }
}
