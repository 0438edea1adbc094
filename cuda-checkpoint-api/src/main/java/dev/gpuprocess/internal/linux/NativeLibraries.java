package dev.gpuprocess.internal.linux;

import java.util.Optional;
import jnr.ffi.LibraryLoader;
import jnr.ffi.LibraryOption;
import jnr.ffi.Runtime;

/**
 * Binds native libraries for both modules; nothing else calls JNR's loaders. Safe for use by
 * several threads.
 *
 * <p>The first binding makes jffi, which JNR is built on, write its own library to a file and load
 * it. By default that file is among the temporary files with permissions that depend on the umask,
 * and another user who opens it for writing before it is removed can change the code that this JVM
 * runs. So it is written to a directory that only this user can enter.
 */
public final class NativeLibraries {

  /**
   * Names the directory to which jffi writes its library. jffi reads it once, when it is loaded.
   */
  private static final String EXTRACT_DIRECTORY = "jffi.extract.dir";

  /** Names the directory of an installed jffi library. */
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
   * Loads jffi, for JNR libraries that do their own binding. Respects properties set on the command
   * line of the JVM, and does nothing when jffi is loaded.
   */
  public static synchronized void prepare() {
    if (!loaded) {
      // One lock for all class loaders: each has its own jffi, but they share the property.
      synchronized (System.getProperties()) {
        extract();
      }
      loaded = true;
    }
  }

  private static void extract() {
    boolean chosen =
        System.getProperty(EXTRACT_DIRECTORY) != null || System.getProperty(BOOT_PATH) != null;
    // If no directory of this user allows executing code, jffi reports that itself.
    Optional<PrivateDirectory> directory = chosen ? Optional.empty() : PrivateDirectory.create();
    directory.ifPresent(made -> System.setProperty(EXTRACT_DIRECTORY, made.path().toString()));
    try {
      Runtime.getSystemRuntime(); // loads jffi
    } finally {
      directory.ifPresent(
          made -> {
            System.clearProperty(EXTRACT_DIRECTORY);
            made.delete();
          });
    }
  }
}
