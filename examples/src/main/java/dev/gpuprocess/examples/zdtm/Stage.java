package dev.gpuprocess.examples.zdtm;

import dev.gpuprocess.fixtures.ProgramRun;
import dev.gpuprocess.internal.linux.DurableFiles;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Set;

/**
 * A copy of CRIU's {@code test} directory, to which the test programs may write. The programs and
 * their hooks name files relative to it: {@code zdtm/static/NAME.pid}.
 */
final class Stage {

  static final Path PROGRAMS = Path.of("zdtm", "static");

  private final Path test;
  private final Set<Path> own;

  /**
   * Records the files that exist.
   *
   * @param test the copy
   */
  Stage(Path test) throws IOException {
    this.test = test;
    this.own = Set.copyOf(DurableFiles.list(programs()));
  }

  /** Returns the copy. */
  Path test() {
    return test;
  }

  /** Returns the directory of the compiled programs. */
  Path programs() {
    return test.resolve(PROGRAMS);
  }

  /** Returns a file of a program, such as its {@code .pid}. */
  Path file(Program program, String ending) {
    return programs().resolve(program.name() + ending);
  }

  /** Removes the files that programs have made beside themselves. */
  void removeLeftovers() throws IOException {
    for (Path file : DurableFiles.list(programs())) {
      if (!own.contains(file)) {
        ProgramRun.of("rm", "-rf", "--one-file-system", file.toString()).in(test).succeed();
      }
    }
  }
}
