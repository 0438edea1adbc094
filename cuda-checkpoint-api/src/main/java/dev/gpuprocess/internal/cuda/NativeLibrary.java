package dev.gpuprocess.internal.cuda;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.MachineUnfitException;
import dev.gpuprocess.internal.linux.NativeLibraries;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * A driver library that is loaded at its first use. So this class can be used on a machine without
 * a GPU, and finds a driver that is installed later. Safe for use by several threads.
 */
public final class NativeLibrary<T> {

  /** The directory of the driver's libraries, if the dynamic loader does not find them. */
  private static final String PROPERTY = "gpuprocess.driver.dir";

  private static final String VARIABLE = "GPUPROCESS_DRIVER_DIR";

  /** The directories in which distributions and NVIDIA's container tools install the libraries. */
  private static final String USUAL =
      "/usr/lib/x86_64-linux-gnu:/usr/lib64:/usr/lib:/lib64"
          + ":/usr/local/nvidia/lib64:/usr/local/nvidia/lib";

  private final Class<T> functions;
  private final String file;
  private final @Nullable Path directory;
  private @Nullable T loaded;

  public NativeLibrary(Class<T> functions, String file, @Nullable Path directory) {
    this.functions = functions;
    this.file = file;
    this.directory = directory;
  }

  /**
   * Returns the directory of the property or the environment variable; null for the search of the
   * dynamic loader.
   */
  public static @Nullable Path configuredDirectory() {
    String name = System.getProperty(PROPERTY, System.getenv(VARIABLE));
    return name == null || name.isBlank() ? null : Path.of(name).toAbsolutePath();
  }

  public synchronized T get() {
    T library = loaded == null ? load() : loaded;
    loaded = library;
    return library;
  }

  /** Returns whether the file is in a directory that the dynamic loader searches. Opens no file. */
  public boolean isThere() {
    if (directory != null) {
      return Files.exists(directory.resolve(file));
    }
    String named = System.getenv().getOrDefault("LD_LIBRARY_PATH", "");
    return Stream.of((named + ":" + USUAL).split(":"))
        .filter(place -> !place.isBlank())
        .anyMatch(place -> Files.exists(Path.of(place, file)));
  }

  /** Returns the file. */
  @Override
  public String toString() {
    return directory == null ? file : directory.resolve(file).toString();
  }

  private T load() {
    if (directory != null && !Files.exists(directory.resolve(file))) {
      throw missing("no such file in " + directory, null);
    }
    // With an absolute path, the loader does not use the system's driver instead.
    String name = directory == null ? file : directory.resolve(file).toString();
    try {
      return NativeLibraries.load(functions, name);
    } catch (LinkageError | RuntimeException e) {
      throw missing(
          String.valueOf(e.getMessage()).lines().findFirst().orElse("cannot be loaded"), e);
    }
  }

  private MachineUnfitException missing(String why, @Nullable Throwable cause) {
    return new MachineUnfitException(
        MachineUnfitException.Reason.NO_CUDA_DRIVER,
        file
            + " cannot be loaded ("
            + why
            + "): install the NVIDIA driver, or name the directory of its libraries in "
            + VARIABLE,
        Failure.of("load " + file, 0),
        cause);
  }
}
