package dev.gpuprocess.criu;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.internal.linux.LibcFunctions;
import dev.gpuprocess.internal.linux.NativeLibraries;
import java.io.IOException;
import java.net.URL;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;

/**
 * Initialises the classes of the library without a descriptor; a JVM of its own. A class that fails
 * at that can never be used again in its JVM.
 */
final class DescriptorlessStart {

  /** Before how many classes were initialised. */
  static final String INITIALISED = "initialised ";

  private DescriptorlessStart() {}

  /**
   * Prints how many there were, or which of them failed.
   *
   * @param args none
   * @throws Exception when it cannot be tried
   */
  public static void main(String[] args) throws Exception {
    Hoard.loadClasses(DescriptorlessStart.class.getClassLoader());
    // JNR reads files at its first binding, which is that of the CUDA driver: nothing is begun yet.
    LibcFunctions unusedFunctions = NativeLibraries.load(LibcFunctions.class, "c");
    List<Class<?>> ours = ours();
    List<String> failed = new ArrayList<>();
    try (Hoard all = new Hoard(0)) {
      for (Class<?> each : ours) {
        try {
          Class<?> unused = Class.forName(each.getName(), true, each.getClassLoader());
        } catch (LinkageError | ClassNotFoundException e) {
          failed.add(each.getName() + ": " + e + " " + e.getCause());
        }
      }
    }
    System.out.println(failed.isEmpty() ? INITIALISED + ours.size() : String.join("\n", failed));
  }

  /** Without those of tests. */
  private static List<Class<?>> ours() throws IOException, ClassNotFoundException {
    Set<URL> places = Set.of(place(GpuCheckpoints.class), place(RpcCriuDriver.class));
    List<Class<?>> ours = new ArrayList<>();
    for (String name : Hoard.classes()) {
      Class<?> each = Class.forName(name, false, DescriptorlessStart.class.getClassLoader());
      if (places.contains(place(each))) {
        ours.add(each);
      }
    }
    return ours;
  }

  private static URL place(Class<?> each) {
    return each.getProtectionDomain().getCodeSource().getLocation();
  }
}
