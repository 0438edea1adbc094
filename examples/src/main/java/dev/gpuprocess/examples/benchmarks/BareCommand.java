package dev.gpuprocess.examples.benchmarks;

import dev.gpuprocess.fixtures.ProgramRun;
import java.nio.file.Path;
import java.time.Duration;

/** {@code criu dump} with a sync of its files, and {@code criu restore}. */
record BareCommand(Path criu) implements Contender {

  private static final Duration LIMIT = Duration.ofMinutes(10);

  private static final String DUMP =
      "\"$0\" dump --tree \"$1\" --images-dir \"$2\" --shell-job --log-file dump.log"
          + " && exec sync \"$2\"/* \"$2\"";

  @Override
  public void dump(int pid, Path place) {
    ProgramRun.of("sh", "-c", DUMP, criu.toString(), Integer.toString(pid), place.toString())
        .succeed(LIMIT);
  }

  @Override
  public void restore(int pid, Path place) {
    ProgramRun.of(
            criu.toString(),
            "restore",
            "--images-dir",
            place.toString(),
            "--shell-job",
            "--restore-detached",
            "--log-file",
            "restore.log")
        .succeed(LIMIT);
  }

  @Override
  public String toString() {
    return "criu command, sync";
  }
}
