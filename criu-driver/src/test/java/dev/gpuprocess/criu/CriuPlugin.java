package dev.gpuprocess.criu;

import dev.gpuprocess.fixtures.ProgramRun;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** A plugin for CRIU that names itself in the images and records its calls. */
final class CriuPlugin {

  static final String NAME = "cuda_plugin";

  // The descriptor as CRIU reads it; it stands for a plugin without hooks.
  private static final String SOURCE =
      """
      int open(const char *, int, ...), dprintf(int, const char *, ...), close(int);
      int add_inventory_plugin(const char *);
      static void say(const char *what, int stage, int result) {
        int file = open("%1$s", 02101, 0600);
        dprintf(file, "%%s at stage %%d with %%d\\n", what, stage, result);
        close(file);
      }
      static int begin(int stage) {
        say("init", stage, 0);
        return stage == 0 ? add_inventory_plugin("%2$s") : 0;
      }
      static void end(int stage, int result) { say("exit", stage, result); }
      struct {
        const char *name;
        int (*init)(int);
        void (*exit)(int, int);
        unsigned version, hooks;
      } CR_PLUGIN_DESC = {"%2$s", begin, end, 2 << 8, 0};
      """;

  private CriuPlugin() {}

  /**
   * Makes one.
   *
   * @param directory where it goes
   * @param told the file that it writes to
   */
  static void make(Path directory, Path told) {
    try {
      Files.createDirectories(directory);
      Path source = Files.writeString(directory.resolve("plugin.c"), SOURCE.formatted(told, NAME));
      ProgramRun.of(
              "gcc",
              "-shared",
              "-fPIC",
              "-nostdlib",
              "-o",
              directory.resolve("plugin.so").toString(),
              source.toString())
          .succeed();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
