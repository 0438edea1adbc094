package dev.gpuprocess.examples.benchmarks;

import java.io.IOException;
import java.nio.file.Path;

/** {@code criu dump} with a sync of its files, and {@code criu restore}. */
record BareCommand(Path criu) implements Contender {

  private static final String DUMP =
      "\"$0\" dump --tree \"$1\" --images-dir \"$2\" --shell-job --log-file dump.log"
          + " && exec sync \"$2\"/* \"$2\"";

  @Override
  public void dump(int pid, Path place) throws IOException, InterruptedException {
    Programs.run("sh", "-c", DUMP, criu.toString(), Integer.toString(pid), place.toString());
  }

  @Override
  public void restore(int pid, Path place) throws IOException, InterruptedException {
    Programs.run(
        criu.toString(),
        "restore",
        "--images-dir",
        place.toString(),
        "--shell-job",
        "--restore-detached",
        "--log-file",
        "restore.log");
  }

  @Override
  public String toString() {
    return "criu command, sync";
  }
}
