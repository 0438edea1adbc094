package dev.gpuprocess.internal.context;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.MachineUnfitException;
import dev.gpuprocess.internal.linux.DurableFiles;
import java.io.IOException;
import java.net.URISyntaxException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.CodeSource;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Loads the classes of this library if they are in directories, as in a build that is not packaged.
 * Loading a class takes a descriptor, and a JVM may have no descriptor left in the middle of a
 * verb, when a process has to be rolled back. So all classes are loaded before the first verb. A
 * jar is opened once, when its first class is loaded or a service is looked up.
 */
public final class LibraryClasses {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  private static final String SUFFIX = ".class";

  private static boolean loaded;

  private LibraryClasses() {}

  /**
   * Loads all classes, unless that was done before.
   *
   * @throws MachineUnfitException with reason CLASS_LOADING when a class cannot be loaded
   */
  public static synchronized void load() {
    if (loaded) {
      return;
    }
    try {
      loadBeside(LibraryClasses.class);
      for (Class<?> driver : CriuProviders.types()) {
        loadBeside(driver);
      }
    } catch (IOException | ClassNotFoundException | LinkageError e) {
      throw unloadable("load classes", Failure.of("load classes", 0), e);
    }
    loaded = true;
  }

  /**
   * Makes the exception for a class that could not be loaded.
   *
   * @param operation the operation that needed it
   */
  public static MachineUnfitException unloadable(
      String operation, Failure failure, Throwable cause) {
    return new MachineUnfitException(
        MachineUnfitException.Reason.CLASS_LOADING,
        "%s failed because a class of this library could not be loaded (%s): allow this JVM more open files (ulimit -n), or complete its class path, and start it again"
            .formatted(operation, cause),
        failure,
        cause);
  }

  private static void loadBeside(Class<?> one) throws IOException, ClassNotFoundException {
    CodeSource source = one.getProtectionDomain().getCodeSource();
    if (source == null || source.getLocation() == null) {
      return;
    }
    Path place;
    try {
      place = Path.of(source.getLocation().toURI());
    } catch (URISyntaxException | RuntimeException notOfAFile) {
      LOG.debug("{} is not in a directory", source.getLocation(), notOfAFile);
      return;
    }
    Path ours = place.resolve("dev").resolve("gpuprocess");
    if (Files.isDirectory(ours)) {
      loadIn(ours, "dev.gpuprocess.", one.getClassLoader());
    }
  }

  private static void loadIn(Path directory, String prefix, ClassLoader loader)
      throws IOException, ClassNotFoundException {
    for (Path entry : DurableFiles.list(directory)) {
      String name = String.valueOf(entry.getFileName());
      if (name.endsWith(SUFFIX)) {
        if (!name.equals("package-info" + SUFFIX)) {
          String simple = name.substring(0, name.length() - SUFFIX.length());
          Class<?> unused = Class.forName(prefix + simple, false, loader);
        }
      } else if (Files.isDirectory(entry)) {
        loadIn(entry, prefix + name + ".", loader);
      }
    }
  }
}
