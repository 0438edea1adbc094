package dev.gpuprocess.examples;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.jspecify.annotations.NullUnmarked;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/** The scripts in bin/ have a help, and refuse invalid arguments at once. */
@NullUnmarked
class ScriptsTest {

  private static final Path BIN = Path.of(System.getProperty("gpuprocess.root"), "bin");

  @TempDir Path directory;

  static Stream<String> scripts() throws IOException {
    try (Stream<Path> files = Files.walk(BIN)) {
      return files
          .filter(file -> Files.isRegularFile(file) && Files.isExecutable(file))
          .map(file -> BIN.relativize(file).toString())
          .sorted()
          .toList()
          .stream();
    }
  }

  private record Outcome(int exit, List<String> out, List<String> error) {}

  private Outcome run(String script, String... arguments) throws IOException, InterruptedException {
    Path out = directory.resolve("out");
    Path error = directory.resolve("error");
    List<String> command = new ArrayList<>(List.of(BIN.resolve(script).toString()));
    command.addAll(List.of(arguments));
    ProcessBuilder builder =
        new ProcessBuilder(command)
            .directory(directory.toFile())
            .redirectOutput(out.toFile())
            .redirectError(error.toFile());
    // The help must not need any other variable.
    builder.environment().keySet().removeIf(name -> !name.equals("PATH"));
    Process process = builder.start();
    process.getOutputStream().close();
    if (!process.waitFor(180, TimeUnit.SECONDS)) {
      process.descendants().forEach(ProcessHandle::destroyForcibly);
      process.destroyForcibly();
      throw new AssertionError(command + " did not exit");
    }
    return new Outcome(
        process.exitValue(),
        Files.readAllLines(out, StandardCharsets.UTF_8),
        Files.readAllLines(error, StandardCharsets.UTF_8));
  }

  @ParameterizedTest
  @MethodSource("scripts")
  void printsPurposeAndUsageForHelp(String script) throws Exception {
    for (String option : List.of("--help", "-h")) {
      Outcome help = run(script, option);
      assertEquals(0, help.exit(), help::toString);
      assertEquals(List.of(), help.error());
      assertTrue(help.out().get(0).matches("[A-Z].{20,}"), help::toString);
      assertTrue(
          help.out().stream().anyMatch(line -> line.startsWith("  bin/" + script)), help::toString);
    }
  }

  @ParameterizedTest
  @MethodSource("scripts")
  void printsOneLineOfUsageForInvalidArguments(String script) throws Exception {
    List<String[]> nonsense =
        List.of(
            new String[] {"--nonsense"},
            new String[] {"no/such/thing", "x", "y", "z"},
            new String[] {"1", "2", "3", "--nonsense"});
    for (String[] arguments : nonsense) {
      Outcome outcome = run(script, arguments);
      assertEquals(2, outcome.exit(), () -> List.of(arguments) + " " + outcome);
      assertEquals(List.of(), outcome.out());
      assertEquals(1, outcome.error().size(), outcome::toString);
      assertTrue(outcome.error().get(0).startsWith("usage: bin/" + script), outcome::toString);
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"verify-loaded", "verify-conditions"})
  void commandIsMissingAfterTheDashes(String script) throws Exception {
    String own = script.equals("verify-loaded") ? "1" : "one-cpu";
    for (String[] arguments : List.of(new String[] {"--"}, new String[] {own, "--"})) {
      Outcome outcome = run(script, arguments);
      assertEquals(2, outcome.exit(), outcome::toString);
      assertTrue(outcome.error().get(0).startsWith("usage: bin/" + script), outcome::toString);
    }
  }
}
