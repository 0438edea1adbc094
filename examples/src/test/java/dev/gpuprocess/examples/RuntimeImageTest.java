package dev.gpuprocess.examples;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.SimulatedDriver;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.spi.ToolProvider;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Runs the jlink command of docs/operations.md with the JDK that runs the tests. */
class RuntimeImageTest {

  private static final String COMMAND =
      "jlink --add-modules java.logging,jdk.jfr,jdk.unsupported --output runtime";

  @Test
  void runsOnAnImageWithTheModulesOfThePage(@TempDir Path directory)
      throws IOException, InterruptedException {
    Path page = Path.of(System.getProperty("gpuprocess.root"), "docs/operations.md");
    assertTrue(Files.readString(page).contains(COMMAND), page + " does not show " + COMMAND);
    Path runtime = directory.resolve("runtime");
    String[] words = COMMAND.split(" ");
    words[words.length - 1] = runtime.toString();
    StringWriter printed = new StringWriter();
    assertEquals(0, jlink(printed, Arrays.copyOfRange(words, 1, words.length)), printed::toString);
    Path output = directory.resolve("output");
    Process program =
        new ProcessBuilder(
                runtime.resolve("bin/java").toString(),
                "-cp",
                System.getProperty("java.class.path"),
                Program.class.getName(),
                directory.resolve("state").toString())
            .redirectErrorStream(true)
            .redirectOutput(output.toFile())
            .start();
    int status = program.waitFor();
    assertEquals(0, status, Files.readString(output));
  }

  @Test
  void refusesToLinkAutomaticModules(@TempDir Path directory) {
    String jnr =
        Arrays.stream(System.getProperty("java.class.path").split(":"))
            .filter(jar -> jar.contains("jnr-ffi-"))
            .findFirst()
            .orElseThrow();
    StringWriter printed = new StringWriter();
    String image = directory.resolve("runtime").toString();
    int status =
        jlink(printed, "-p", jnr, "--add-modules", "org.jnrproject.ffi", "--output", image);
    assertNotEquals(0, status);
    assertTrue(printed.toString().contains("automatic module"), printed.toString());
  }

  private static int jlink(StringWriter printed, String... arguments) {
    PrintWriter out = new PrintWriter(printed);
    return ToolProvider.findFirst("jlink").orElseThrow().run(out, out, arguments);
  }

  /** A program that suspends and resumes a process. */
  static final class Program {

    private Program() {}

    public static void main(String[] args) {
      try (SimulatedDriver machine = SimulatedDriver.create();
          Counter counter = Counter.start(machine)) {
        int first = counter.increment();
        GpuCheckpoints.builder()
            .cuda(machine.directory())
            .stateDirectory(Path.of(args[0]))
            .build()
            .process(counter.pid())
            .suspend()
            .resume();
        if (counter.increment() != first + 1) {
          throw new IllegalStateException("the counter lost its number");
        }
      }
    }
  }
}
