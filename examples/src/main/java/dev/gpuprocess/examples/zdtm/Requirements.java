package dev.gpuprocess.examples.zdtm;

import dev.gpuprocess.fixtures.ProgramRun;
import dev.gpuprocess.fixtures.ProgramRun.Ended;
import java.nio.file.Files;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** Checks the requirements of a test program for the machine, the kernel and CRIU. */
final class Requirements {

  private final Stage stage;
  private final BareCommand criu;
  private final Map<String, Boolean> features = new HashMap<>();

  Requirements(Stage stage, BareCommand criu) {
    this.stage = stage;
    this.criu = criu;
  }

  /**
   * Checks all requirements of a program.
   *
   * @throws NotHereException if one is not met
   */
  void check(Program program) throws NotHereException {
    List<String> architectures = program.words("arch");
    if (!architectures.isEmpty() && !architectures.contains("x86_64")) {
      throw new NotHereException("is for " + String.join(", ", architectures));
    }
    for (String feature : program.words("feature")) {
      if (!features.computeIfAbsent(feature, criu::has)) {
        throw new NotHereException("criu check --feature " + feature + " fails");
      }
    }
    if (Files.isExecutable(stage.file(program, ".checkskip"))) {
      String script = Stage.PROGRAMS.resolve(program.name() + ".checkskip").toString();
      Ended ended = ProgramRun.of(script).in(stage.test()).run();
      if (ended.exit() != 0) {
        String why = ended.lastLine();
        throw new NotHereException(
            "its own check, " + script + ", fails" + (why.isEmpty() ? "" : ": " + why));
      }
    }
  }
}
