package dev.gpuprocess.examples.cli;

import picocli.CommandLine.Option;

/**
 * The option of commands that leave a process off its GPU. A script may then call {@code criu
 * dump}, which refuses processes with large files that have no name, so save files are not the
 * default.
 */
final class SaveArguments {

  @Option(
      names = "--save-files",
      description =
          "Keep the GPU memory in files in host memory, which is faster, also for gpuprocess dump;"
              + " plain criu dump then needs --ghost-limit.")
  private boolean isFile;

  boolean usesSaveFiles() {
    return isFile;
  }
}
