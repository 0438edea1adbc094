package dev.gpuprocess.internal.os;

import java.util.Optional;
import jnr.ffi.LibraryLoader;
import jnr.ffi.LibraryOption;
import jnr.ffi.Runtime;

/**
 * Binds native libraries, for both modules: nothing else calls JNR's loaders.
 *
 * <p>The first binding makes jffi, which JNR is built on, write its own library to a file and load
 * it. By default that file is in the directory for temporary files with the rights that the umask
 * leaves, and whoever opens it for writing before it is removed can change the code that this JVM
 * runs. So it is written into a directory that only we can enter.
 */
public final class NativeLibraries {

  /** Where jffi puts its library. It reads this once, when it is loaded. */
  private static final String EXTRACT_DIRECTORY = "jffi.extract.dir";

  /** Where jffi finds a library that is installed already. */
  private static final String BOOT_PATH = "jffi.boot.library.path";

  private static boolean loaded;

  private NativeLibraries() {}

  /**
   * Binds a library.
   *
   * @param functions an interface with the C names and signatures
   * @param library a short name such as {@code c}, a file name, or a path
   * @return the functions
   * @throws LinkageError when the library cannot be loaded
   */
  public static <T> T load(Class<T> functions, String library) {
    prepare();
    return LibraryLoader.create(functions)
        .failImmediately()
        .option(LibraryOption.LoadNow, true)
        .load(library);
  }

  /**
   * Loads jffi, for those who go on with a JNR library that does its own binding. Leaves alone what
   * the user of the JVM has set, and does nothing when jffi is loaded already.
   */
  public static synchronized void prepare() {
    if (!loaded) {
      // One lock for all class loaders: each has a jffi of its own, the property is the JVM's.
      synchronized (System.getProperties()) {
        extract();
      }
      loaded = true;
    }
  }

  private static void extract() {
    if (System.getProperty(EXTRACT_DIRECTORY) != null || System.getProperty(BOOT_PATH) != null) {
      loadJffi();
      return;
    }
    Optional<PrivateDirectory> directory = PrivateDirectory.create();
    if (directory.isEmpty()) {
      // Nothing can be run from any directory that is ours: jffi says so in its own words.
      loadJffi();
      return;
    }
    System.setProperty(EXTRACT_DIRECTORY, directory.get().path().toString());
    try {
      loadJffi();
    } finally {
      System.clearProperty(EXTRACT_DIRECTORY);
      directory.get().delete();
    }
  }

  private static void loadJffi() {
    Runtime.getSystemRuntime();
  }
}
