package dev.gpuprocess.examples.cli;

import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.gpuprocess.fixtures.ProgramRun;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** The criu command that {@code GPUPROCESS_CRIU} names, and its logs. */
final class PlainCriu {

  private static final Duration PATIENCE = Duration.ofMinutes(3);
  private static final int LAST_LINES = 12;

  private PlainCriu() {}

  /** Returns the path of the command; without one the test is skipped. */
  static String command() {
    String named = System.getenv("GPUPROCESS_CRIU");
    assumeTrue(named != null, "no CRIU was named");
    return named;
  }

  /**
   * Runs one verb. Its log is {@code VERB.log} in the directory of the images.
   *
   * @throws AssertionError if it fails; the message has the end of the log
   */
  static void run(Path images, String verb, Object... more) {
    List<String> words = new ArrayList<>(List.of(command(), verb, "--no-default-config", "-v4"));
    words.addAll(List.of("--log-file", verb + ".log", "--images-dir", images.toString()));
    words.addAll(Call.words(more));
    ProgramRun.Ended ended = ProgramRun.of(words).run(PATIENCE);
    if (ended.exit() != 0) {
      throw new AssertionError(
          "%s exited with %s: %s%s"
              .formatted(String.join(" ", words), ended.exit(), ended.printed(), logs(images)));
    }
  }

  /** Returns the errors and the last lines of each log in a directory and below. */
  static String logs(Path images) {
    try (Stream<Path> files = Files.walk(images)) {
      return files
          .filter(file -> file.toString().endsWith(".log"))
          .map(PlainCriu::excerpt)
          .collect(Collectors.joining());
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static String excerpt(Path log) {
    try {
      List<String> lines = Files.readAllLines(log);
      int tail = Math.max(0, lines.size() - LAST_LINES);
      return Stream.concat(
              lines.stream().limit(tail).filter(line -> line.contains("Error")),
              lines.stream().skip(tail))
          .collect(Collectors.joining("\n", "\n--- " + log + "\n", "\n"));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
