package dev.gpuprocess.examples.zdtm;

import dev.gpuprocess.examples.zdtm.Way.FailedException;
import dev.gpuprocess.fixtures.ProgramRun;
import dev.gpuprocess.fixtures.ProgramRun.Ended;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.Optional;

/** The script that prepares and checks a test program from outside, if the program has one. */
final class Hooks implements AutoCloseable {

  private static final Duration LIMIT = Duration.ofSeconds(30);

  private final Stage stage;
  private final Program program;

  Hooks(Stage stage, Program program) {
    this.stage = stage;
    this.program = program;
  }

  /**
   * Runs the script while the program gets ready.
   *
   * @return the reason if the script fails, which is not a failure of CRIU
   */
  Optional<String> postStart() {
    try {
      run("--post-start", Map.of());
      return Optional.empty();
    } catch (FailedException | UncheckedIOException e) {
      return Optional.of(String.valueOf(e.getMessage()));
    }
  }

  /** Runs the script before the dump. */
  void preDump(int pid) throws FailedException {
    run("--pre-dump", pid(pid));
  }

  /** Runs the script between dump and restore. */
  void preRestore(int pid) throws FailedException {
    run("--pre-restore", pid(pid));
  }

  /**
   * Runs the script after the restore.
   *
   * @param images the directory that holds the directories of images
   */
  void postRestore(int pid, Path images) throws FailedException {
    run(
        "--post-restore",
        Map.of("ZDTM_TEST_PID", Integer.toString(pid), "ZDTM_IMG_DIR", images.toString()));
  }

  /** Runs the script at the end, also after a failure. */
  @Override
  public void close() throws FailedException {
    run("--clean", Map.of());
  }

  private static Map<String, String> pid(int pid) {
    return Map.of("ZDTM_TEST_PID", Integer.toString(pid));
  }

  private void run(String moment, Map<String, String> environment) throws FailedException {
    Path script = Stage.PROGRAMS.resolve(program.name() + ".hook");
    if (Files.isExecutable(stage.test().resolve(script))) {
      Ended ended =
          ProgramRun.of("./" + script, moment).in(stage.test()).with(environment).run(LIMIT);
      if (ended.exit() != 0) {
        throw new FailedException(
            "its hook " + moment + " exited with " + ended.exit() + ": " + ended.lastLine());
      }
    }
  }
}
