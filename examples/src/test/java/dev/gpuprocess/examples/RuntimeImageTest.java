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
  void theLibraryRunsOnAnImageOfTheModulesThatThePageNames(@TempDir Path directory)
      throws IOException, InterruptedException {
    Path page = Path.of(System.getProperty("gpuprocess.root"), "docs/operations.md");
    assertTrue(Files.readString(page).contains(COMMAND), page + " does not show " + COMMAND);
    Path runtime = directory.resolve("runtime");
    String[] words = COMMAND.split(" ");
    words[words.length - 1] = runtime.toString();
    StringWriter said = new StringWriter();
    assertEquals(0, jlink(said, Arrays.copyOfRange(words, 1, words.length)), said::toString);
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
  void automaticModulesCannotBeLinked(@TempDir Path directory) {
    String jnr =
        Arrays.stream(System.getProperty("java.class.path").split(":"))
            .filter(jar -> jar.contains("jnr-ffi-"))
            .findFirst()
            .orElseThrow();
    StringWriter said = new StringWriter();
    String image = directory.resolve("runtime").toString();
    int status = jlink(said, "-p", jnr, "--add-modules", "org.jnrproject.ffi", "--output", image);
    assertNotEquals(0, status);
    assertTrue(said.toString().contains("automatic module"), said.toString());
  }

  private static int jlink(StringWriter said, String... arguments) {
    PrintWriter out = new PrintWriter(said);
    return ToolProvider.findFirst("jlink").orElseThrow().run(out, out, arguments);
  }

  /** Takes a process off a GPU and brings it back. */
  static final class Program {

    private Program() {}

    public static void main(String[] args) {
      try (SimulatedDriver machine = SimulatedDriver.create();
          Counter job = Counter.start(machine)) {
        int first = job.increment();
        GpuCheckpoints.builder()
            .cuda(machine.directory())
            .stateDirectory(Path.of(args[0]))
            .build()
            .process(job.pid())
            .suspend()
            .resume();
        if (job.increment() != first + 1) {
          throw new IllegalStateException("the counter lost its number");
        }
      }
    }
  }
}
