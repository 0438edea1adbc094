package dev.gpuprocess.examples.zdtm;

import dev.gpuprocess.examples.zdtm.Way.FailedException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.stream.Stream;

/**
 * A copy of CRIU's {@code test} directory, which the test programs may write into. They and their
 * hooks name files from it: {@code zdtm/static/NAME.pid}.
 */
final class Stage {

  static final Path PROGRAMS = Path.of("zdtm", "static");

  private final Path test;
  private final Set<Path> own;

  /**
   * Takes note of what is there.
   *
   * @param test the copy
   */
  Stage(Path test) throws IOException {
    this.test = test;
    this.own = new HashSet<>(files());
  }

  /** The copy. */
  Path test() {
    return test;
  }

  /** The compiled programs. */
  Path programs() {
    return test.resolve(PROGRAMS);
  }

  /** A file that belongs to a program, such as its {@code .pid}. */
  Path file(Program program, String ending) {
    return programs().resolve(program.name() + ending);
  }

  /** Removes what programs have left beside themselves. */
  void removeLeftovers() throws IOException, FailedException {
    for (Path file : files()) {
      if (!own.contains(file)) {
        Command.in(test, "rm", "-rf", "--one-file-system", file.toString()).succeed();
      }
    }
  }

  private List<Path> files() throws IOException {
    try (Stream<Path> files = Files.list(programs())) {
      return files.toList();
    }
  }
}
