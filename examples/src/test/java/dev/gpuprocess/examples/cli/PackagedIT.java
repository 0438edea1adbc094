package dev.gpuprocess.examples.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.fixtures.Command;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Path;
import java.util.List;
import java.util.spi.ToolProvider;
import java.util.stream.Stream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The command line as the build packs it. Other tests use its classes before they are packed. */
class PackagedIT {

  private static Path jar(String name) {
    return Path.of(System.getProperty("gpuprocess.root"), "examples", "target", name);
  }

  @ParameterizedTest
  @ValueSource(strings = {"gpuprocess.jar", "gpuprocess-agent.jar"})
  void hasEachOfOurClassesThatItNeeds(String name) {
    StringWriter printed = new StringWriter();
    PrintWriter out = new PrintWriter(printed, true);
    int code =
        ToolProvider.findFirst("jdeps")
            .orElseThrow()
            .run(out, out, "--multi-release", "17", "--missing-deps", jar(name).toString());
    assertEquals(0, code, printed::toString);
    // The annotations of others, which need not be there at run time, are among what it prints.
    assertEquals(
        List.of(), printed.toString().lines().filter(line -> line.contains("> dev.gpu")).toList());
  }

  @ParameterizedTest
  @ValueSource(strings = {"gpuprocess.jar", "gpuprocess-agent.jar"})
  void printsItsHelp(String name) {
    String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
    String help = Command.of(java, "-jar", jar(name).toString(), "help").succeed();
    assertTrue(
        Stream.of("suspend", "restore-image", "slurm", "slot", "agent").allMatch(help::contains),
        help);
  }
}
