package dev.gpuprocess.internal.proc;

import java.util.Optional;
import java.util.concurrent.atomic.AtomicReference;

/** The device files of AMD GPUs that a process has open or mapped. */
public final class AmdDevices {

  /** Also how stand-ins are named, below a directory of their own. */
  private static final String COMPUTE = "/dev/kfd";

  private static final String RENDER = "/dev/dri/renderD";

  private AmdDevices() {}

  /** Whether a path is a device file by which an AMD GPU is used. */
  public static boolean isDevice(String name) {
    return name.endsWith(COMPUTE) || name.contains(RENDER);
  }

  /**
   * Looks at a process.
   *
   * @param each called for each descriptor and mapping; what it throws ends the look
   * @return the name of one of them
   * @throws dev.gpuprocess.error.ProcessUnreadableException when the process may not be looked at
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
