package dev.gpuprocess.internal.proc;

import java.util.List;
import java.util.Optional;
import java.util.function.Predicate;
import java.util.stream.Stream;

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
    Predicate<String> isDevice =
        name -> {
          each.run();
          return isDevice(name);
        };
    List<OpenFile> files = OpenFile.of(pid, file -> isDevice.test(file.target()));
    List<Mapping> mappings = Mapping.of(pid, mapping -> isDevice.test(mapping.name()));
    return Stream.concat(files.stream().map(OpenFile::target), mappings.stream().map(Mapping::name))
        .findFirst();
  }
}
