package dev.gpuprocess.criu.internal.rpc;

import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.TreeOptions;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** The options that CRIU takes only from a configuration file, not over RPC. */
public final class ConfigFile {

  public static final String NAME = "criu.conf";

  private ConfigFile() {}

  /**
   * Writes the file, if there is anything to write.
   *
   * @param work the directory to write it to
   * @return whether a file was written
   */
  static boolean write(TreeOptions options, Path work) throws IOException {
    List<String> lines = lines(options);
    if (!lines.isEmpty()) {
      Files.write(work.resolve(NAME), lines);
    }
    return !lines.isEmpty();
  }

  private static List<String> lines(TreeOptions options) {
    List<String> lines = new ArrayList<>();
    options
        .fileValidation()
        .ifPresent(
            how ->
                lines.add(
                    "file-validation "
                        + switch (how) {
                          case SIZE -> "filesize";
                          case BUILD_ID -> "buildid";
                        }));
    if (options.allowUprobes()) {
      lines.add("allow-uprobes");
    }
    if (options instanceof DumpOptions dump && dump.ghostFiemap()) {
      lines.add("ghost-fiemap");
    }
    if (options instanceof DumpOptions dump) {
      // RPC carries only the port, and CRIU would listen on every address.
      dump.lazyPages().ifPresent(here -> lines.add("address " + here.host()));
    }
    return lines;
  }
}
