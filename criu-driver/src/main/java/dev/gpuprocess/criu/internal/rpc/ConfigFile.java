package dev.gpuprocess.criu.internal.rpc;

import dev.gpuprocess.options.CriuOptions;
import dev.gpuprocess.spi.DumpRequest;
import dev.gpuprocess.spi.RestoreRequest;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** The options that CRIU takes only from a configuration file, not over RPC. */
public final class ConfigFile {

  public static final String NAME = "criu.conf";

  private ConfigFile() {}

  /** Writes the file if there is anything to write; returns whether it did. */
  static boolean write(DumpRequest request, PluginDirectory plugins) throws IOException {
    List<String> lines = lines(request.options().criu());
    plugins.line().ifPresent(lines::add);
    if (request.options().criu().ghostFiemap()) {
      lines.add("ghost-fiemap");
    }
    return write(lines, request.work());
  }

  /** Writes the file if there is anything to write; returns whether it did. */
  static boolean write(RestoreRequest request, PluginDirectory plugins) throws IOException {
    List<String> lines = lines(request.options().criu());
    plugins.line().ifPresent(lines::add);
    return write(lines, request.work());
  }

  private static boolean write(List<String> lines, Path work) throws IOException {
    if (!lines.isEmpty()) {
      Files.write(work.resolve(NAME), lines);
    }
    return !lines.isEmpty();
  }

  private static List<String> lines(CriuOptions criu) {
    List<String> lines = new ArrayList<>();
    if (criu.compareFilesBySize()) {
      lines.add("file-validation filesize");
    }
    if (criu.allowUprobes()) {
      lines.add("allow-uprobes");
    }
    return lines;
  }
}
