package dev.gpuprocess.criu;

import dev.gpuprocess.criu.internal.process.ProgramTrust;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.MachineUnfitException;
import dev.gpuprocess.spi.GpuPlugin;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/** Finds plugins of CRIU. */
final class PluginFinder {

  /** The system property that names the directory. */
  static final String PROPERTY = "gpuprocess.criu.plugins";

  /** The environment variable that names the directory. */
  static final String VARIABLE = "GPUPROCESS_CRIU_PLUGINS";

  /** CRIU's default, and the directories of distributions and of builds from source. */
  private static final List<Path> USUAL =
      List.of(
          Path.of("/usr/lib/criu"),
          Path.of("/usr/lib64/criu"),
          Path.of("/usr/lib/x86_64-linux-gnu/criu"),
          Path.of("/usr/libexec/criu"),
          Path.of("/usr/local/lib/criu"));

  private final List<Path> directories;

  private PluginFinder(List<Path> directories) {
    this.directories = directories;
  }

  static PluginFinder in(Path directory) {
    return new PluginFinder(List.of(directory.toAbsolutePath()));
  }

  /** Looks where this JVM's properties and environment say, or else in the usual places. */
  static PluginFinder ofEnvironment() {
    @Nullable String named = System.getProperty(PROPERTY, System.getenv(VARIABLE));
    return named == null || named.isBlank() ? new PluginFinder(USUAL) : in(Path.of(named));
  }

  /**
   * Finds one.
   *
   * @throws MachineUnfitException with reason PLUGIN_MISSING when it is nowhere, or others could
   *     have changed it
   */
  Path find(GpuPlugin plugin) {
    for (Path directory : directories) {
      Path file = directory.resolve(plugin.fileName());
      if (Files.isRegularFile(file)) {
        requireTrust(plugin, file);
        return file;
      }
    }
    throw missing(
        "CRIU's plugin %s is not in %s: install it in CRIU's version (package criu-amdgpu-plugin, or built with CRIU), or name its directory in %s"
            .formatted(
                plugin.fileName(),
                String.join(", ", directories.stream().map(Path::toString).toList()),
                VARIABLE));
  }

  private static void requireTrust(GpuPlugin plugin, Path file) {
    Optional<String> objection = ProgramTrust.objection(file, false);
    if (objection.isPresent()) {
      throw missing(
          "CRIU's plugin %s at %s is not loaded, as CRIU runs it as root and %s: install one that only root can change"
              .formatted(plugin.id(), file, objection.get()));
    }
  }

  private static MachineUnfitException missing(String why) {
    return new MachineUnfitException(
        MachineUnfitException.Reason.PLUGIN_MISSING, why, Failure.of("find plugin", 0));
  }
}
